"""Compiles LLVM assembly for this machine and makes it callable on NumPy arrays."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from autotune.codegen.elf.object_reader import defines
from autotune.codegen.llvm import LLVMSource, emit
from autotune.errors import CodegenError, TargetError
from autotune.ir.stmt import PrimFunc
from autotune.lowering.gpu.simt_to_loops import simt_on_cpu
from autotune.runtime.cpu.compiled_kernel import CpuBinary, Kernel
from autotune.runtime.cpu.dispatch_rule import Rule, bound_entry, choice_source, kernels_of
from autotune.runtime.cpu.named_processors import features_of
from autotune.runtime.cpu.openmp import SYMBOLS, OpenMP, find_openmp
from autotune.runtime.cpu.parallel_launch import launch_source
from autotune.runtime.cpu.processor_features import (
    missing_features,
    needed_features,
    unlisted_features,
)
from autotune.runtime.object_cache import ObjectCache, cache_key, default_cache
from autotune.runtime.signature import Signature
from autotune.system import host
from autotune.system.available_cpus import thread_count
from autotune.system.words import one_line
from autotune.target import Target

_log = logging.getLogger(__name__)


class LoadedBinary(Kernel):
    """A compiled function in this process, called with its arrays in order.

    `binary`: compiled for this machine, here or in another process.

    Raises CodegenError if it calls a function that this process does not have.
    """

    def __init__(self, binary: CpuBinary) -> None:
        #: What it was compiled for.
        self.target = binary.target
        openmp = find_openmp() if binary.uses_threads else None
        threads = thread_count(binary.target.threads) if openmp is not None else 1
        self._engine, address = _load(binary, openmp)
        super().__init__(binary.signature, address, threads)

    def __repr__(self) -> str:
        return f"<{self.signature.name} for {self.target}>"


class ChoiceFunction(Kernel):
    """Kernels of the same arrays, and a rule that picks one by sizes, as one function.

    `signature`: what it takes.
    `rule`: names sizes of the signature, and kernels by their positions.
    `kernels`: compiled for the same target, each with a name of its own.
    """

    def __init__(
        self, signature: Signature, rule: Rule, kernels: Sequence[CompiledFunction]
    ) -> None:
        self.rule = rule
        self.kernels = tuple(kernels)
        self.target = kernels[0].target
        entries = [kernel.module.entry for kernel in kernels]
        own = [kernel.signature for kernel in kernels]
        self.module = choice_source(signature, rule, entries, own)
        uses_threads = any(kernel.module.uses_threads for kernel in kernels)
        self.module = replace(self.module, uses_threads=uses_threads)
        used = set(kernels_of(rule))
        known = {entries[n]: kernels[n].address for n in sorted(used)}
        entry = self.module.entry
        own_entries = [entry, bound_entry(entry)]
        self._engine, addresses = _linked(self.object_code(), own_entries, known)
        threads = max(kernel.threads for kernel in kernels)
        super().__init__(signature, addresses[entry], threads, addresses[bound_entry(entry)])

    @property
    def source(self) -> str:
        """LLVM assembly of the rule, then of the kernels."""
        return "\n".join([self.module.text, *(kernel.source for kernel in self.kernels)])

    def object_code(self) -> bytes:
        """Return the object file of the rule."""
        return object_code(self.module, self.target, None, None)

    def object_files(self) -> list[bytes]:
        """Return the object files that a library of it has."""
        used = sorted(set(kernels_of(self.rule)))
        return [self.object_code(), *(self.kernels[n].object_code() for n in used)]

    def __repr__(self) -> str:
        return f"<{self.signature.name} for {self.target}, of {len(self.kernels)} kernels>"


class CompiledFunction(LoadedBinary):
    """A function compiled for this machine, called with its arrays in order."""

    def __init__(
        self,
        function: PrimFunc,
        source: LLVMSource,
        target: Target,
        level: int | None,
        cache: ObjectCache | None,
    ) -> None:
        #: What was compiled.
        self.function = function
        #: Its LLVM assembly, with the name of its entry point.
        self.module = source
        self._level = level
        self._cache = cache
        super().__init__(_binary(Signature.of(function), source, target, level, cache))

    @property
    def source(self) -> str:
        """Its LLVM assembly."""
        return self.module.text

    def object_code(self) -> bytes:
        """Return its object file, which is the one that runs here."""
        return object_code(self.module, self.target, self._level, self._cache)

    def object_files(self) -> list[bytes]:
        """Return the object files that a library of it has."""
        return [self.object_code()]

    def assembly(self) -> str:
        """Return the machine's assembly text that the optimiser arrives at."""
        with _lock:
            machine = _machine(self.target.mcpu)
            level = _level_of(self.source, self._level)
            module = _optimised(self.source, machine, level)
            with _options_of(self.module, level):
                text: str = machine.emit_assembly(module)
        return text

    def optimised(self) -> str:
        """Return the LLVM assembly after optimisation."""
        machine = _machine(self.target.mcpu)
        return str(_optimised(self.source, machine, _level_of(self.source, self._level)))


def compile_function(
    function: PrimFunc,
    target: str | Target = "llvm",
    level: int | None = None,
    cache: ObjectCache | None = None,
) -> CompiledFunction:
    """Compile a function in final form for this machine.

    `function`: without knobs or vectorised loops.
    `target`: of kind "llvm", or "cuda -on=cpu".
    `level`: optimisation level of LLVM; by default 1 for vectors that the schedule made, else 2. On
    scheduled kernels 2 and 3 take nearly twice as long as 1; neither was faster.
    `cache`: where compiled objects are kept; the process's own (memory and disk) if None.

    Raises CodegenError if the function has no meaning on a CPU, or LLVM refuses it. Raises
    TargetError if the target is no CPU, or one this machine cannot run.
    """
    target = Target.of(target)
    source = _emitted(function, target)
    return CompiledFunction(function, source, target, level, cache or default_cache())


def compile_binary(function: PrimFunc, target: Target) -> CpuBinary:
    """Compile a function as `compile_function` does, for another process to load.

    Raises CodegenError or TargetError as `compile_function`.
    """
    source = _emitted(function, target)
    return _binary(Signature.of(function), source, target, None, default_cache())


def _emitted(function: PrimFunc, target: Target) -> LLVMSource:
    check_target(target)
    threads = target.kind == "cuda"
    loops = simt_on_cpu(function) if threads else function
    return emit(loops, target.fast_math, has_avx512=target.host.vector_bytes >= 64)


def _binary(
    signature: Signature,
    source: LLVMSource,
    target: Target,
    level: int | None,
    cache: ObjectCache | None,
) -> CpuBinary:
    code = object_code(source, target, level, cache)
    return CpuBinary(signature, target, source.entry, _external(source), source.uses_threads, code)


def check_target(target: Target) -> None:
    """Raise TargetError if this machine cannot run code for `target`."""
    if not target.on_cpu:
        raise TargetError(
            f"target '{target}' is not compiled by LLVM: expected kind llvm, or cuda -on=cpu"
        )
    cpu_and_features(target.mcpu)


# -- LLVM -----------------------------------------------------------------

#: Version of the passes, for the keys of cached objects.
_PASSES = "passes of functions, induction variables"

_lock = threading.Lock()


@functools.cache
def _initialised() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@functools.cache
def cpu_and_features(mcpu: str) -> tuple[str, str]:
    """LLVM's CPU name and features; for native the known features of this processor.

    In a process that builds for another machine, that one's.
    """
    if mcpu == "native":
        cpu, features = host.fact("llvm", _native)
        return cpu, features
    if not _is_known(mcpu):
        raise TargetError(f"LLVM knows no CPU {mcpu!r}: use -mcpu=native or a name such as znver3")
    if host.builds_for_another_processor():
        return mcpu, ""
    needed = needed_features(mcpu, "")
    missing = missing_features(features_of(mcpu) if needed is None else needed)
    if missing:
        raise TargetError(
            f"this machine cannot run code for -mcpu={mcpu}: it lacks {', '.join(missing)}; "
            "use -mcpu=native"
        )
    return mcpu, ""


def _native() -> tuple[str, str]:
    """Return LLVM's name of this processor, and its features as far as Linux lists them."""
    features = llvm.get_host_cpu_features()
    features.update(dict.fromkeys(unlisted_features(features), False))
    return llvm.get_host_cpu_name(), features.flatten()


def _is_known(cpu: str) -> bool:
    """Whether LLVM knows the CPU; it only says so on the error stream, which is caught here."""
    if cpu == "help":  # LLVM would list all it knows, and end the process
        return False
    saved = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            _initialised().create_target_machine(cpu=cpu)
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        caught.seek(0)
        return b"not a recognized processor" not in caught.read()


def optimised_for(cpu: str, source: str) -> str:
    """Return LLVM assembly after optimisation for a CPU, of which machine code is written too.

    LLVM ends the process where it cannot write code for the CPU.
    """
    machine = _initialised().create_target_machine(cpu=cpu)
    module = _optimised(source, machine, 2)
    machine.emit_object(module)
    return str(module)


def _new_machine(mcpu: str) -> Any:
    cpu, features = cpu_and_features(mcpu)
    # Above 1 the code generator takes an eighth longer, and its code was no faster.
    return _initialised().create_target_machine(
        cpu=cpu, features=features, opt=1, reloc="pic", codemodel="jitdefault", jit=True
    )


@functools.cache
def _machine(mcpu: str) -> Any:
    return _new_machine(mcpu)


def _is_scalar(text: str) -> bool:
    """Whether a module has no vectors, which LLVM's loop vectorizer may then make."""
    return re.search(r"<\d+ x \w+>", text) is None


def _level_of(text: str, level: int | None) -> int:
    return level if level is not None else 2 if _is_scalar(text) else 1


def _optimised(source: str, machine: Any, level: int) -> Any:
    try:
        module = llvm.parse_assembly(source)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM refused the generated code: {one_line(str(error))}") from error
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.loop_interleaving = _is_scalar(source)
    tuning.slp_vectorization = False
    # Vectorised kernels compile in up to half the time without LLVM's unroller and run no slower;
    # after LLVM's own loop vectorizer it was seen not to end at all.
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    if level != 1:
        builder.getModulePassManager().run(module, builder)
        return module
    # The pipeline of a module takes half as long again and gives code that is as fast: its passes
    # between functions have nothing to do, as only the functions of exp and such are inlined.
    whole = llvm.create_new_module_pass_manager()
    whole.add_always_inliner_pass()
    whole.add_global_dead_code_eliminate_pass()
    whole.run(module, builder)
    passes = builder.getFunctionPassManager()
    # The results of unrolled reductions, which level 1 stores after each step.
    passes.add_dead_store_elimination_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


@contextlib.contextmanager
def _options_of(source: LLVMSource, level: int) -> Iterator[None]:
    """Within it LLVM's code generator has the options of a module.

    They are options of the process, so the caller holds the lock: outside they have LLVM's values.
    Without loop strength reduction, the code generator takes half the time; our innermost loops
    are reduced already (`Atom.multiples`), but not those of LLVM's vectors. LLVM's scheduler of
    machine instructions runs only if the module lets it.
    """
    options = [("-enable-misched=false", "-enable-misched=true")] if source.keeps_order else []
    if level < 2:
        options.append(("-disable-lsr=true", "-disable-lsr=false"))
    for own, _ in options:
        llvm.set_option("", own)
    try:
        yield
    finally:
        for _, usual in options:
            llvm.set_option("", usual)


def llvm_version() -> str:
    """Return the version of LLVM that llvmlite brings."""
    return ".".join(map(str, llvm.llvm_version_info))


def object_code(
    source: LLVMSource, target: Target, level: int | None, cache: ObjectCache | None
) -> bytes:
    """Return the object file of a module, from the cache if it is there.

    Raises CodegenError if LLVM refuses the module.
    """
    cpu, features = cpu_and_features(target.mcpu)
    versions = llvmlite.__version__, llvm_version(), _PASSES
    order = ("in order",) if source.keeps_order else ()
    key = cache_key(source.text, *versions, cpu, features, str(level), *order)
    found = None
    if cache is not None:
        found = cache.get(key, lambda data: defines(data, source.entry))
    if found is None:
        with _lock:
            begin = time.perf_counter()
            machine = _machine(target.mcpu)
            used = _level_of(source.text, level)
            module = _optimised(source.text, machine, used)
            with _options_of(source, used):
                found = bytes(machine.emit_object(module))
            _log.debug("%s compiled in %.3f s", source.entry, time.perf_counter() - begin)
        if cache is not None:
            cache.put(key, found)
    return found


_libraries = 0


def _load(binary: CpuBinary, openmp: OpenMP | None) -> tuple[Any, int]:
    """Link an object in its own engine; return the engine, which keeps it, and the entry point."""
    imported = _parallel_functions(openmp)[1] if binary.uses_threads else {}
    try:
        keep, addresses = _linked(binary.object_code, [binary.entry], imported)
    except RuntimeError as error:
        missing = ", ".join(_missing(binary.external)) or one_line(str(error))
        message = f"the compiled code cannot be linked: no symbol {missing}"
        raise CodegenError(message) from error
    return keep, addresses[binary.entry]


def _linked(
    code: bytes, exported: Sequence[str], imported: Mapping[str, int]
) -> tuple[Any, dict[str, int]]:
    """Link an object; return the engine that keeps it, and the addresses of its functions."""
    global _libraries
    with _lock:
        _libraries += 1
        engine = llvm.create_lljit_compiler(_new_machine("native"), suppress_errors=True)
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        for name in exported:
            builder.export_symbol(name)
        for name, address in imported.items():
            builder.import_symbol(name, address)
        tracker = builder.link(engine, f"kernel{_libraries}")
        return (tracker, engine), {name: tracker[name] for name in exported}


def _external(source: LLVMSource) -> tuple[str, ...]:
    """Functions that a module may call: all that it declares except LLVM's and OpenMP's."""
    names = re.findall(r"^declare [^@\n]*@([\w.]+)\(", source.text, re.MULTILINE)
    return tuple(n for n in names if n not in SYMBOLS and not n.startswith("llvm."))


def _missing(names: Sequence[str]) -> list[str]:
    """Those functions that this process does not have."""
    process = ctypes.CDLL(None)
    return [name for name in names if not hasattr(process, name)]


@functools.cache
def _parallel_functions(openmp: OpenMP | None) -> tuple[Any, dict[str, int]]:
    """Link the functions of parallel loops; return the engine that keeps them, and the addresses.

    Without OpenMP the loops run on one thread.
    """
    entry = "use_openmp"
    code = object_code(launch_source(entry), Target.of("llvm"), None, default_cache())
    keep, addresses = _linked(code, [entry, *SYMBOLS], {})
    if openmp is not None:
        use_openmp = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(SYMBOLS))(addresses[entry])
        use_openmp(*(openmp.addresses[name] for name in SYMBOLS))
    return keep, addresses
