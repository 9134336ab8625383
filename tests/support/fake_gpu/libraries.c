// Stand-ins for NVIDIA's libraries, so that processes find a driver and GPUs where there are none:
// libcuda and libnvidia-ml answer what is asked of them here; libnvrtc hands on to the real one, and
// puts the source behind the machine code, for the fake CuPy to run.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int setting(const char* name, int usual) {
  const char* text = getenv(name);
  return text ? atoi(text) : usual;
}

int cuInit(unsigned flags) { return 0; }
// NVRTC asks for what is between it and the driver: there is nothing (CUDA_ERROR_NOT_FOUND).
int cuGetExportTable(const void** table, const void* id) { return 500; }
int cuDriverGetVersion(int* version) { *version = setting("FAKE_GPU_DRIVER", 12090); return 0; }
int cuDeviceGetCount(int* count) { *count = setting("FAKE_GPU_COUNT", 1); return 0; }
int cuDeviceGet(int* device, int number) { *device = number; return 0; }
int cuDeviceGetName(char* name, int size, int device) {
  strncpy(name, "Fake GPU", size);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = 1ull << 34; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : 0;
  return 0;
}

int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  const char release[] = "999.1";
  for (unsigned i = 0; i < sizeof release && i < size; ++i) text[i] = release[i];
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) { return 0; }
int nvmlDeviceGetClockInfo(void* handle, int kind, unsigned* clock) {
  *clock = kind == 1 ? 1980 : 3201;
  return 0;
}

static char* source;

static void* real(const char* name) {
  static void* library;
  if (!library) library = dlopen(getenv("FAKE_GPU_NVRTC"), RTLD_LAZY);
  return dlsym(library, name);
}

#define HAND_ON(name, types, values) \
  int name types { return ((int (*) types)real(#name)) values; }

HAND_ON(nvrtcVersion, (int* major, int* minor), (major, minor))
HAND_ON(nvrtcGetNumSupportedArchs, (int* count), (count))
HAND_ON(nvrtcGetSupportedArchs, (int* numbers), (numbers))
HAND_ON(nvrtcAddNameExpression, (void* program, const char* name), (program, name))
HAND_ON(nvrtcCompileProgram, (void* program, int count, const char** words), (program, count, words))
HAND_ON(nvrtcGetProgramLogSize, (void* program, size_t* size), (program, size))
HAND_ON(nvrtcGetProgramLog, (void* program, char* log), (program, log))
HAND_ON(nvrtcGetLoweredName, (void* program, const char* name, const char** symbol),
        (program, name, symbol))
HAND_ON(nvrtcDestroyProgram, (void** program), (program))

int nvrtcCreateProgram(void** program, const char* text, const char* name, int count,
                       const char** headers, const char** names) {
  free(source);
  source = strdup(text);
  int (*create)(void**, const char*, const char*, int, const char**, const char**) =
      real("nvrtcCreateProgram");
  return create(program, text, name, count, headers, names);
}

int nvrtcGetCUBINSize(void* program, size_t* size) {
  int status = ((int (*)(void*, size_t*))real("nvrtcGetCUBINSize"))(program, size);
  *size += strlen(source) + sizeof(size_t);
  return status;
}

int nvrtcGetCUBIN(void* program, char* code) {
  size_t size, length = strlen(source);
  ((int (*)(void*, size_t*))real("nvrtcGetCUBINSize"))(program, &size);
  int status = ((int (*)(void*, char*))real("nvrtcGetCUBIN"))(program, code);
  memcpy(code + size, source, length);
  memcpy(code + size + length, &length, sizeof(size_t));
  return status;
}
