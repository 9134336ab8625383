"""What library functions mean, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def same_pads(size: int, kernel: int, stride: int, upper: bool = True) -> tuple[int, int, int]:
    """Return padding before and after, and the size of the result, of "same" convolutions."""
    out = -(-size // stride)
    both = max(0, (out - 1) * stride + kernel - size)
    before = both // 2 if upper else (both + 1) // 2
    return before, both - before, out


def conv1d(x: Any, k: Any, stride: int = 1, pads: tuple[int, int] = (0, 0)) -> Any:
    """Convolve NLC by KIO."""
    x = np.pad(x, ((0, 0), pads, (0, 0)))
    count = (x.shape[1] - len(k)) // stride + 1
    return sum(x[:, j : j + stride * (count - 1) + 1 : stride] @ k[j] for j in range(len(k)))


def conv2d(
    x: Any, k: Any, stride: int = 1, pads: Any = ((0, 0), (0, 0)), dilation: int = 1
) -> Any:
    """Convolve NHWC by HWIO."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    sizes = zip(x.shape[1:3], k.shape[:2], strict=True)
    h, w = ((n - dilation * (m - 1) - 1) // stride + 1 for n, m in sizes)
    return sum(
        x[:, dilation * i :, dilation * j :][:, : stride * (h - 1) + 1 : stride,
                                             : stride * (w - 1) + 1 : stride] @ k[i, j]
        for i in range(k.shape[0]) for j in range(k.shape[1])
    )  # fmt: skip


def grouped(x: Any, k: Any, groups: int) -> Any:
    """Convolve NHWC by (h, w, ci / groups, co), group by group."""
    ci, co = k.shape[2], k.shape[3] // groups
    parts = [
        conv2d(x[..., g * ci : (g + 1) * ci], k[..., g * co : (g + 1) * co]) for g in range(groups)
    ]
    return np.concatenate(parts, axis=-1)


def transposed(y: Any, k: Any, size: int, stride: int, before: int) -> Any:
    """Add up what a convolution of NLI to `y` by KIO would take from its input."""
    long = np.zeros((len(y), stride * y.shape[1] + len(k) + size, k.shape[1]), y.dtype)
    for i in range(y.shape[1]):
        for j in range(len(k)):
            long[:, stride * i + j] += y[:, i] @ k[j].T
    return long[:, before : before + size]


def windows(x: Any, size: int, stride: int, before: int, out: int) -> list[Any]:
    """Return windows along axis 1 of NLC, those at the edges cut."""
    starts = [stride * o - before for o in range(out)]
    return [x[:, max(s, 0) : s + size] for s in starts]


def softmax(x: Any) -> Any:
    """Softmax of the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def prng(state: Any, count: int) -> tuple[Any, Any]:
    """Return random numbers in [0, 1] and the next state: L'Ecuyer's taus88, 2048 times."""
    s, out = state.astype("u8"), np.empty(count, "f4")
    steps = ((2**32 - 2, 12, 13, 19), (2**32 - 8, 4, 2, 25), (2**32 - 16, 17, 3, 11))
    for start in range(0, count, 2048):
        n = min(2048, count - start)
        for word, (kept, up, left, right) in enumerate(steps):
            v = s[word, :n]
            mixed = ((v << np.uint64(left)) & np.uint64(2**32 - 1)) ^ v
            high = ((v & np.uint64(kept)) << np.uint64(up)) & np.uint64(2**32 - 1)
            s[word, :n] = high ^ (mixed >> np.uint64(right))
        bits = (s[0, :n] ^ s[1, :n] ^ s[2, :n]).astype("u4")
        out[start : start + n] = bits.astype("f4") / np.float32(2**32)
    return out, s.astype("u4")


def scattered(rows: Any, numbers: Any, count: int) -> Any:
    """Add rows up by their numbers."""
    out = np.zeros((count, *rows.shape[numbers.ndim :]), rows.dtype)
    np.add.at(out, np.clip(numbers, 0, count - 1), rows)
    return out


def resized(x: Any, factor: int) -> Any:
    """Interpolate a vector linearly, zeros beyond its end."""
    ends = np.append(x, 0)
    return np.array(
        [
            ends[i] * (1 - j / factor) + ends[i + 1] * j / factor
            for i in range(len(x)) for j in range(factor)
        ],
        x.dtype,
    )  # fmt: skip
