class CallableKernel: pass
