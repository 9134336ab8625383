"""Features that code for one of LLVM's named processors needs, found in a child process.

A child, because LLVM ends the process when asked for 64-bit code for a 32-bit processor.
"""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Sequence

from autotune.errors import TargetError
from autotune.runtime.cpu.processor_features import LLVM_NAMES
from autotune.system.host import architecture

TIMEOUT_S = 60.0


@functools.cache
def features_of(cpu: str) -> list[str]:
    """Return the features that code for a processor may use, of those that change code; sorted.

    `cpu`: a name that LLVM knows.

    Raises TargetError if LLVM writes no code for it on this kind of machine.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "autotune.runtime.cpu.named_processors"],
            input=cpu.encode(),
            capture_output=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _refusal(cpu, f"it does not return within {TIMEOUT_S:g} s") from None
    try:
        return list(json.loads(done.stdout))
    except ValueError:
        said = done.stderr.decode(errors="replace")
    if "64-bit code requested" in said:
        raise _refusal(cpu, "that processor has no 64-bit instructions")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raise _refusal(cpu, lines[-1] if lines else f"it ended with {done.returncode}")


def _refusal(cpu: str, why: str) -> TargetError:
    return TargetError(
        f"LLVM writes no code for -mcpu={cpu} on {architecture()}: {why}; use -mcpu=native or a "
        "name such as x86-64-v3"
    )


# -- in a process of its own -----------------------------------------------------------------------


def _probe(cpu: str, features: Sequence[str]) -> str:
    """Return a function for a processor that calls one for each feature.

    LLVM puts a function in the place of its call where the caller has all features of it.
    """
    count = range(len(features))
    calls = "".join(f"  call void @need{n}()\n" for n in count)
    needs = "".join(
        f"define internal void @need{n}() #{n} {{\n  call void @found(i32 {n})\n  ret void\n}}\n"
        for n in count
    )
    attributes = "".join(
        f'attributes #{n} = {{ "target-cpu"="x86-64" "target-features"="+{feature}" }}\n'
        for n, feature in enumerate(features)
    )
    own = f'attributes #{len(features)} = {{ "target-cpu"="{cpu}" }}\n'
    caller = f"define void @caller() #{len(features)} {{\n{calls}  ret void\n}}\n"
    return f"declare void @found(i32)\n{needs}{caller}{attributes}{own}"


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # LLVM aborts
    from autotune.runtime.cpu.llvm_compiler import optimised_for

    cpu = sys.stdin.buffer.read().decode()
    features = sorted(LLVM_NAMES) if architecture() == "x86_64" else []
    text = optimised_for(cpu, _probe(cpu, features))
    caller = text[text.index("@caller()") :].partition("}")[0]
    found = map(int, re.findall(r"call void @found\(i32 (?:noundef )?(\d+)\)", caller))
    print(json.dumps([features[n] for n in found]))


if __name__ == "__main__":
    _main()
