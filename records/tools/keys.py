"""Keys of records: digests that are equal for equal records, measurements or groups.

In: records or their outlines. Out: keys by which the tools find duplicates and groups.
"""

from __future__ import annotations

import hashlib
from typing import Any

from records.groups import group_key
from records.json_lines import canonical_json, has_rounded, parse_json, parse_plain
from records.outline import Outline

# Key of a line by which merging marks records of one measurement that differ; readers pass over it.
CONFLICT = "conflict"

_BYTES = 16  # Of digests: none of 10^12 records are mistaken for another.


def content_digest(line: bytes) -> bytes:
    """Return a digest that is equal for lines of the same data, whether or not they are marked.

    The order of keys does not count.
    """
    data: Any = parse_plain(line)
    if data is None or has_rounded(data.get("workload"), data.get("config"), data.get("seed")):
        data = parse_json(line)
    data.pop(CONFLICT, None)
    return _digest(data)


def measurement_digest(outline: Outline) -> bytes:
    """Return a digest that is equal for two records of one measurement, even if results differ.

    One measurement is of one configuration of one workload, on one device, by one version of the
    template, with one seed, at one time, and in the same final comparison or none.
    """
    return _digest(
        [
            group_key(outline),
            outline.config["values"],
            outline.seed,
            outline.timestamp,
            None if outline.final is None else outline.final.get("comparison"),
        ]
    )


def is_marked(line: bytes) -> bool:
    """Whether merging has marked a line as in conflict with another."""
    if b'"conflict"' not in line:
        return False
    data: Any = parse_plain(line) or parse_json(line)
    return CONFLICT in data


def marked(line: bytes, measurement: bytes) -> bytes:
    """Return a line with the mark of its measurement."""
    if is_marked(line):
        return line
    return line.rstrip()[:-1] + f',"{CONFLICT}":"{measurement.hex()[:16]}"}}'.encode()


def _digest(data: object) -> bytes:
    return hashlib.blake2b(canonical_json(data).encode(), digest_size=_BYTES).digest()
