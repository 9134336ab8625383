"""A batch of candidates gives bit for bit what its candidates give one by one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from features import (
    ANNOTATIONS,
    VIRTUAL_THREAD,
    BufferAccess,
    Loop,
    LoopNest,
    candidate,
    flatten_names,
    flatten_rows,
    itervar_columns,
    itervar_matrix,
    itervar_rows,
    stack_columns,
)


@st.composite
def nests(draw):
    """Random trees of loops whose numbers are scalars or arrays over n candidates."""
    n = draw(st.integers(1, 4))

    def number(low, high):
        one = st.integers(low, high)
        many = st.lists(one, min_size=n, max_size=n).map(lambda v: np.array(v, np.float64))
        return draw(st.one_of(one, many))

    loops, paths = [], [()]
    for index in range(draw(st.integers(1, 7))):
        path = draw(st.sampled_from(paths))
        paths.append((*path, index))
        length = draw(st.just(-1)) if draw(st.integers(0, 19)) == 0 else number(1, 6)
        loops.append(
            Loop(
                draw(st.sampled_from(["i", "j", "k.inner"])),
                draw(st.sampled_from((*ANNOTATIONS, VIRTUAL_THREAD))),
                length,
                path[-1] if path else -1,
                len(path) + 1,
                number(0, 2),
                number(0, 2),
                number(0, 2),
            )
        )
    accesses = []
    for index in range(draw(st.integers(0, 5))):
        path = draw(st.sampled_from(paths))
        # One array serves several accesses, as in a store and the load of the same element.
        strides = (
            accesses[-1].strides
            if accesses and accesses[-1].loops == path
            else tuple(number(-1, 3) for _ in path)
        )
        mods = tuple(draw(st.sampled_from([-1, 7])) for _ in path)
        accesses.append(BufferAccess("AB"[index % 2], index, path, strides, mods, 4, index == 0))
    return n, LoopNest(tuple(loops), tuple(accesses))


@settings(max_examples=100, deadline=None)
@given(case=nests(), layout=st.sampled_from(["itervar", "autotvm08"]), take_log=st.booleans())
def test_a_batch_equals_its_candidates_bit_for_bit(case, layout, take_log):
    n, nest = case
    names, matrix = itervar_matrix(nest, n, take_log=take_log, layout=layout)
    for index in range(n):
        rows = itervar_rows(candidate(nest, index), take_log, layout)
        assert flatten_names(rows) == names
        assert flatten_rows(rows).astype(np.float32).tobytes() == matrix[index].tobytes()


@settings(max_examples=50, deadline=None)
@given(case=nests())
def test_a_part_of_the_columns_equals_those_of_the_whole(case):
    n, nest = case
    names, matrix = itervar_matrix(nest, n)
    some = names[::-3]
    assert itervar_columns(nest, names=some)[0] == some
    part = stack_columns(*itervar_columns(nest, names=some), n, order="C")
    assert part.tobytes() == np.ascontiguousarray(matrix[:, ::-3]).tobytes()


def test_chunks_of_a_space_agree_with_the_whole():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 9, (3, 100)).astype(np.float64)

    def part(rows):
        outer, middle, inner = (np.ascontiguousarray(length[rows]) for length in lengths)
        loops = (
            Loop("i", "BLOCK_X", outer, -1, 1, 0, 0, 0),
            Loop("j", "THREAD_X", middle, 0, 2, 0, 0, 0),
            Loop("k", "SERIAL", inner, 1, 3, 1, 1, 0),
        )
        moving = np.where(inner == 1, 0.0, 1.0)
        access = BufferAccess(
            "A", 0, (0, 1, 2), (middle * inner, inner, moving), (-1, -1, -1), 4, False
        )
        return itervar_matrix(LoopNest(loops, (access,)), len(outer))

    names, whole = part(slice(None))
    first, second = part(slice(0, 64)), part(slice(64, None))
    assert names == first[0] == second[0]
    assert np.concatenate([first[1], second[1]]).tobytes() == np.ascontiguousarray(whole).tobytes()
