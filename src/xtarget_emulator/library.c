/* The HIP library of emulated AMD GPUs: every call goes to Python, which answers it.
 *
 * It has the functions that xtarget's AMD driver calls, under their real names and in their real
 * form, so that the real hip-python finds and calls them. Built by library.py on first use; nothing
 * that runs here may be called silicon. Written from the HIP run time API reference.
 */
#include <stdint.h>
#include <stdio.h>

typedef uint64_t u;
typedef int (*answer_t)(const char *function, const u *arguments);

enum { NO_DEVICE = 100 };
static answer_t answer;
static _Thread_local char text[2048];

/* Python's side: NULL takes it away again, for the end of the process. */
void emulator_answer(answer_t function) { answer = function; }
void emulator_text(const char *why) { snprintf(text, sizeof text, "%s", why); }

static int ask(const char *function, const u *arguments) {
  return answer ? answer(function, arguments) : NO_DEVICE;
}
#define ASK(...) return ask(__func__, (u[]){__VA_ARGS__})

const char *hipGetErrorString(int status) { return status ? text : "no error"; }
const char *hipGetErrorName(int status) { return status ? "hipError" : "hipSuccess"; }

int hipGetLastError(void) { return 0; } /* it remembers none */
int hipInit(unsigned flags) { ASK(flags); }
int hipRuntimeGetVersion(int *version) { ASK((u)version); }
int hipDriverGetVersion(int *version) { ASK((u)version); }
int hipGetDeviceCount(int *count) { ASK((u)count); }
int hipGetDevice(int *device) { ASK((u)device); }
int hipSetDevice(int device) { ASK((u)device); }
int hipDeviceSynchronize(void) { ASK(0); }
int hipDeviceGetAttribute(int *value, int attribute, int device) { ASK((u)value, (u)attribute, (u)device); }
int hipGetDevicePropertiesR0600(void *properties, int device) { ASK((u)properties, (u)device); }

int hipDeviceCanAccessPeer(int *can, int device, int peer) { ASK((u)can, (u)device, (u)peer); }

int hipMalloc(void **p, u n) { ASK((u)p, n); }
int hipMallocAsync(void **p, u n, u stream) { ASK((u)p, n, stream); }
int hipFree(void *p) { ASK((u)p); }
int hipFreeAsync(void *p, u stream) { ASK((u)p, stream); }
int hipMemGetInfo(u *left, u *total) { ASK((u)left, (u)total); }
int hipMemcpyWithStream(void *to, const void *from, u n, int kind, u stream) {
  ASK((u)to, (u)from, n, (u)kind, stream);
}

int hipStreamCreateWithFlags(u *stream, unsigned flags) { ASK((u)stream, flags); }
int hipStreamDestroy(u stream) { ASK(stream); }
int hipStreamSynchronize(u stream) { ASK(stream); }
int hipStreamIsCapturing(u stream, int *status) { ASK(stream, (u)status); }
int hipStreamWaitEvent(u stream, u event, unsigned flags) { ASK(stream, event, flags); }
int hipEventCreateWithFlags(u *event, unsigned flags) { ASK((u)event, flags); }
int hipEventRecord(u event, u stream) { ASK(event, stream); }
int hipEventSynchronize(u event) { ASK(event); }
int hipEventElapsedTime(float *ms, u start, u end) { ASK((u)ms, start, end); }
int hipEventDestroy(u event) { ASK(event); }

int hipModuleLoadData(u *module, const void *image) { ASK((u)module, (u)image); }
int hipModuleUnload(u module) { ASK(module); }
int hipModuleGetFunction(u *function, u module, const char *name) { ASK((u)function, module, (u)name); }
int hipModuleLaunchKernel(u function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, u stream, void **parameters, void **extra) {
  ASK(function, gx, gy, gz, bx, by, bz, shared, stream, (u)parameters, (u)extra);
}
int hipModuleLaunchCooperativeKernel(u function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared, u stream,
                                     void **parameters) {
  ASK(function, gx, gy, gz, bx, by, bz, shared, stream, (u)parameters);
}
int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, u function, int threads, u shared) {
  ASK((u)blocks, function, (u)threads, shared);
}
