"""Running built functions: arguments, threads, compile cache, the LLVM engine."""
