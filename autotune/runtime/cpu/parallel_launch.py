"""What a parallel loop calls: an OpenMP runtime, whose threads it keeps on different cores.

A thread that slept is often woken on the core of the thread that woke it, also where another core
is idle (a virtual machine's idle core looks occupied). Both then take turns: each spins until it
gives up, while the other cannot run. Therefore each thread of a team claims its core when it
begins. A thread whose core is taken moves to another core that the process may use and the team
does not, and until the launch ends the leader may only run where it has begun: it may have fallen
asleep, and would be woken beside the thread that moved. If a move takes long, because another
program uses the other core, threads stay where they are for a while.
"""

from __future__ import annotations

from autotune.codegen.llvm import LLVMSource

LAUNCH = "GOMP_parallel"  # Symbol that parallel loops call.
_MOST_CPUS = 1024  # Bits of a set of CPUs, as in the C library; those above are not claimed.
SLOW_NS = 500_000  # A move that takes longer has met another program on the other core.
STAY = 8  # Threads that stay on a core of the team after a move that was slow.

_SOURCE = """\
; Body, context, claimed cores. The leader: its thread, the core where it has begun, whether it is
; kept there, and the cores that it may use.
%team = type {{ ptr, ptr, [{words} x i64], i64, i32, i32, [{words} x i64] }}

@parallel = internal global ptr null
@num_threads = internal global ptr null
@thread_num = internal global ptr null
@stay = internal global i32 0

declare i32 @sched_getcpu()
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Reading the pointers needs no order: they are set before the first call.
define void @{use_openmp}(ptr %parallel, ptr %num_threads, ptr %thread_num) nounwind {{
  store ptr %parallel, ptr @parallel
  store ptr %num_threads, ptr @num_threads
  store ptr %thread_num, ptr @thread_num
  ret void
}}

define void @{launch}(ptr %body, ptr %context, i32 %threads, i32 %flags) nounwind {{
  %team = alloca %team, align 64
  %runtime = load ptr, ptr @parallel
  %absent = icmp eq ptr %runtime, null
  br i1 %absent, label %alone, label %together
alone:
  call void %body(ptr %context)
  ret void
together:
  call void @llvm.memset.p0.i64(ptr align 64 %team, i8 0, i64 {bytes}, i1 false)
  store ptr %body, ptr %team
  %second = getelementptr %team, ptr %team, i64 0, i32 1
  store ptr %context, ptr %second
  %leader = getelementptr %team, ptr %team, i64 0, i32 3
  %self = call i64 @pthread_self()
  store i64 %self, ptr %leader
  %core = getelementptr %team, ptr %team, i64 0, i32 4
  %cpu = call i32 @sched_getcpu()
  store i32 %cpu, ptr %core
  call void %runtime(ptr @part, ptr %team, i32 %threads, i32 %flags)
  %held = getelementptr %team, ptr %team, i64 0, i32 5
  %kept = load atomic i32, ptr %held monotonic, align 4
  %free = icmp eq i32 %kept, 0
  br i1 %free, label %done, label %release
release:
  %cores = getelementptr %team, ptr %team, i64 0, i32 6
  %released = call i32 @pthread_setaffinity_np(i64 %self, i64 {set}, ptr %cores)
  ret void
done:
  ret void
}}

define internal void @part(ptr %team) nounwind {{
  %shared = call i1 @claim(ptr %team)
  br i1 %shared, label %crowded, label %begin
crowded:
  call void @move(ptr %team)
  br label %begin
begin:
  %body = load ptr, ptr %team
  %second = getelementptr %team, ptr %team, i64 0, i32 1
  %context = load ptr, ptr %second
  call void %body(ptr %context)
  ret void
}}

; Nanoseconds of the monotonic clock.
define internal i64 @clock() nounwind {{
  %time = alloca [2 x i64]
  %read = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %second = getelementptr [2 x i64], ptr %time, i64 0, i64 1
  %rest = load i64, ptr %second
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}}

; Claim the calling thread's core; return whether another thread of the team has.
define internal i1 @claim(ptr %team) nounwind {{
  %cpu = call i32 @sched_getcpu()
  %known = icmp ult i32 %cpu, {cpus}
  br i1 %known, label %yes, label %no
yes:
  %word = lshr i32 %cpu, 6
  %at = getelementptr %team, ptr %team, i64 0, i32 2, i32 %word
  %wide = zext i32 %cpu to i64
  %number = and i64 %wide, 63
  %bit = shl i64 1, %number
  %before = atomicrmw or ptr %at, i64 %bit monotonic
  %own = and i64 %before, %bit
  %taken = icmp ne i64 %own, 0
  ret i1 %taken
no:
  ret i1 false
}}

; Let the leader only run where it has begun, or, if it is this thread, go where it is to move.
; Either happens once; afterwards the leader may use what it could before. Return whether this
; thread may move: all may but a leader that is kept.
define internal i1 @hold_leader(ptr %team, i64 %self, ptr %allowed) nounwind noinline {{
  %leader = getelementptr %team, ptr %team, i64 0, i32 3
  %thread = load i64, ptr %leader
  %leads = icmp eq i64 %thread, %self
  %held = getelementptr %team, ptr %team, i64 0, i32 5
  %before = atomicrmw xchg ptr %held, i32 1 monotonic
  %again = icmp ne i32 %before, 0
  br i1 %again, label %late, label %first
late:
  %others = xor i1 %leads, true
  ret i1 %others
first:
  %cores = getelementptr %team, ptr %team, i64 0, i32 6
  br i1 %leads, label %note, label %read
note:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %cores, ptr align 8 %allowed, i64 {set}, i1 false)
  ret i1 true
read:
  %got = call i32 @pthread_getaffinity_np(i64 %thread, i64 {set}, ptr %cores)
  %failed = icmp ne i32 %got, 0
  %core = getelementptr %team, ptr %team, i64 0, i32 4
  %cpu = load i32, ptr %core
  %unknown = icmp uge i32 %cpu, {cpus}
  %no = or i1 %failed, %unknown
  br i1 %no, label %done, label %keep
keep:
  %only = alloca [{words} x i64], align 64
  call void @llvm.memset.p0.i64(ptr align 64 %only, i8 0, i64 {set}, i1 false)
  %word = lshr i32 %cpu, 6
  %at = getelementptr [{words} x i64], ptr %only, i64 0, i32 %word
  %wide = zext i32 %cpu to i64
  %number = and i64 %wide, 63
  %bit = shl i64 1, %number
  store i64 %bit, ptr %at
  %kept = call i32 @pthread_setaffinity_np(i64 %thread, i64 {set}, ptr %only)
  br label %done
done:
  ret i1 true
}}

; Move the calling thread to a core that it may use and the team does not, if there is one. After a
; move that has met another program, threads stay where they are for some launches.
define internal void @move(ptr %team) nounwind noinline {{
  %left = load atomic i32, ptr @stay monotonic, align 4
  %held = icmp sgt i32 %left, 0
  br i1 %held, label %wait, label %find
wait:
  %was = atomicrmw sub ptr @stay, i32 1 monotonic
  ret void
find:
  %allowed = alloca [{words} x i64], align 64
  %free = alloca [{words} x i64], align 64
  call void @llvm.memset.p0.i64(ptr align 64 %allowed, i8 0, i64 {set}, i1 false)
  %self = call i64 @pthread_self()
  %found = call i32 @pthread_getaffinity_np(i64 %self, i64 {set}, ptr %allowed)
  %failed = icmp ne i32 %found, 0
  br i1 %failed, label %stay, label %next
next:
  %word = phi i64 [ 0, %find ], [ %word.next, %next ]
  %any = phi i64 [ 0, %find ], [ %any.next, %next ]
  %theirs = getelementptr %team, ptr %team, i64 0, i32 2, i64 %word
  %claimed = load atomic i64, ptr %theirs monotonic, align 8
  %may = getelementptr [{words} x i64], ptr %allowed, i64 0, i64 %word
  %cores = load i64, ptr %may
  %others = xor i64 %claimed, -1
  %rest = and i64 %cores, %others
  %to = getelementptr [{words} x i64], ptr %free, i64 0, i64 %word
  store i64 %rest, ptr %to
  %any.next = or i64 %any, %rest
  %word.next = add i64 %word, 1
  %last = icmp eq i64 %word.next, {words}
  br i1 %last, label %chosen, label %next
chosen:
  %none = icmp eq i64 %any.next, 0
  br i1 %none, label %stay, label %go
go:
  %may.move = call i1 @hold_leader(ptr %team, i64 %self, ptr %allowed)
  br i1 %may.move, label %away, label %stay
away:
  %since = call i64 @clock()
  %there = call i32 @pthread_setaffinity_np(i64 %self, i64 {set}, ptr %free)
  %back = call i32 @pthread_setaffinity_np(i64 %self, i64 {set}, ptr %allowed)
  %now = call i64 @clock()
  %new = call i1 @claim(ptr %team)
  %spent = sub i64 %now, %since
  %slow = icmp sgt i64 %spent, {slow_ns}
  br i1 %slow, label %busy, label %stay
busy:
  store atomic i32 {stay}, ptr @stay monotonic, align 4
  ret void
stay:
  ret void
}}
"""

# The runtime's facts about a team; a loop on the calling thread alone is a team of one.
_QUERY = """
define i32 @omp_get_{what}() nounwind {{
  %runtime = load ptr, ptr @{what}
  %absent = icmp eq ptr %runtime, null
  br i1 %absent, label %alone, label %together
alone:
  ret i32 {alone}
together:
  %number = call i32 %runtime()
  ret i32 %number
}}
"""


def launch_source(use_openmp: str) -> LLVMSource:
    """Return the functions that parallel loops call.

    They run on the calling thread until the function `use_openmp` has been given an OpenMP
    runtime: its `GOMP_parallel`, `omp_get_num_threads` and `omp_get_thread_num`.
    """
    words = _MOST_CPUS // 64
    text = _SOURCE.format(
        use_openmp=use_openmp,
        launch=LAUNCH,
        cpus=_MOST_CPUS,
        words=words,
        set=8 * words,
        bytes=32 + 16 * words,
        slow_ns=SLOW_NS,
        stay=STAY,
    )
    for what, alone in (("num_threads", 1), ("thread_num", 0)):
        text += _QUERY.format(what=what, alone=alone)
    return LLVMSource(text, use_openmp, False)
