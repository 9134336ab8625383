"""The random numbers of `prng_step`, as a Tile function of the generator's state.

There are 2048 parallel generators. Each has three shift registers of 32 bits, whose words are
combined by exclusive or (P. L'Ecuyer, "Maximally equidistributed combined Tausworthe generators",
1996). Number i is the word of generator ``i % 2048`` after ``i / 2048 + 1`` steps, over 2^32.

A step is linear in the bits, so 2^k steps are a matrix of bits: the words after 1 to m steps give
those after m + 1 to 2 m at once.
"""

from __future__ import annotations

from typing import Final

#: Generators, and words of the state of each.
GENERATORS: Final = 2048
WORDS: Final = 3
#: For each word: its mask, and its shifts to the left, left and right.
_STEPS: Final = ((2**32 - 2, 12, 13, 19), (2**32 - 8, 4, 2, 25), (2**32 - 16, 17, 3, 11))
_MASK: Final = 2**32 - 1


def random_code(count: int) -> str:
    """Return a Tile function of a state: some numbers in one dimension, and the next state."""
    rounds = -(-count // GENERATORS)
    lines = [line for word in range(WORDS) for line in _words(word, rounds)]
    combined = " ^ ".join(f"W{word}" for word in range(WORDS))
    lines += [
        f"Bits = reshape({combined}, {rounds * GENERATORS});",
        f"Kept[i: {count}] = =(Bits[i]);",
        "Value = as_float(Kept, 32) / 4294967296.0;",
        *(line for word in range(WORDS) for line in _last(word, rounds, count % GENERATORS)),
        f"Next = {' + '.join(f'State{word}' for word in range(WORDS))};",
    ]
    return f"function (State) -> (Value, Next) {{ {' '.join(lines)} }}"


def _words(word: int, rounds: int) -> list[str]:
    """Return statements for ``W0[t, l]`` (of word 0): that of generator l after t + 1 steps."""
    kept, up, left, right = _STEPS[word]
    lines = [
        f"S{word}[0, l: 1, {GENERATORS}] = =(State[{word}, l]);",
        f"W{word}_0 = (S{word} & {kept}) << {up} ^ (S{word} << {left} ^ S{word}) >> {right};",
    ]
    known, level, matrix = 1, 0, [_stepped(1 << bit, word) for bit in range(32)]
    while known < rounds:
        now, further = f"W{word}_{level}", f"W{word}_{level + 1}"
        several = min(2 * known, rounds)
        shape = f"{several}, {GENERATORS}"
        lines += [
            f"{further}_moved = {_product(matrix, now)};",
            f"{further}_first[t, l: {shape}] = =({now}[t, l]);",
            f"{further}[t + {known}, l: {shape}] ="
            f" =({further}_moved[t, l]) default {further}_first;",
        ]
        known, level, matrix = several, level + 1, [_applied(matrix, c) for c in matrix]
    return [*lines, f"W{word} = W{word}_{level};"]


def _last(word: int, rounds: int, rest: int) -> list[str]:
    """Return statements for ``State0`` (of word 0), the state's row after the last number."""
    end = f"W{word}[{rounds - 1}, l]"
    before = f"W{word}[{rounds - 2}, l]" if rounds > 1 else f"State[{word}, l]"
    lines = [f"End{word}[{word}, l: {WORDS}, {GENERATORS}] = =({end});"]
    if not rest:
        return [*lines, f"State{word} = End{word};"]
    return [
        *lines,
        f"Before{word}[{word}, l: {WORDS}, {GENERATORS}] = =({before});",
        f"State{word} = index(End{word}, 1) < {rest} ? End{word} : Before{word};",
    ]


def _stepped(value: int, word: int) -> int:
    kept, up, left, right = _STEPS[word]
    return ((value & kept) << up & _MASK) ^ (((value << left & _MASK) ^ value) >> right)


def _applied(matrix: list[int], value: int) -> int:
    """Return a matrix of bits, a number for each column, times a number."""
    result = 0
    for bit, column in enumerate(matrix):
        result ^= column * (value >> bit & 1)
    return result


def _product(matrix: list[int], name: str) -> str:
    """Return the product of a matrix of bits and each element of a tensor."""
    terms = [f"({name} >> {bit} & 1) * {c}" for bit, c in enumerate(matrix) if c]
    while len(terms) > 1:  # a tree of few levels
        pairs = zip(terms[::2], terms[1::2], strict=False)
        odd = terms[len(terms) // 2 * 2 :]
        terms = [f"({a} ^ {b})" for a, b in pairs] + odd
    return terms[0]
