/* A stand-in for libamdhip64.so: what our driver calls, on host memory, without a GPU.
 *
 * It is strict where the real library is silent: a launch whose argument bytes do not have the size
 * that the kernel descriptor says, memory that was never allocated, a closed stream or module are
 * refused, and standin_complaint() says why. Work is queued and runs at the next synchronization,
 * so that a missing one shows. A kernel's own work is done by a callback of the test.
 *
 * Written from the HIP run time API reference and the AMDGPU kernel descriptor (LLVM, "User Guide
 * for AMDGPU Backend"). Nothing that runs here may be called silicon.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX = 4096, NAME = 64, PROPERTIES = 1472, SHARED = 65536, THREADS = 1024 };
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONFIGURATION = 9, NO_DEVICE = 100,
       INVALID_DEVICE = 101, INVALID_IMAGE = 200, CONTEXT_DESTROYED = 709, INVALID_HANDLE = 400,
       NOT_FOUND = 500, TOO_MANY_BLOCKS = 720, CAPTURE_UNSUPPORTED = 900, CAPTURE_ISOLATION = 905,
       CAPTURE_IMPLICIT = 906 };
enum { COMPUTE_UNITS = 8 };

typedef int (*launch_t)(const char *name, const unsigned *dims, unsigned shared, uint64_t stream,
                        const void *bytes, uint64_t count);
typedef struct { char name[256]; uint32_t kernarg, group; } kernel_t;
typedef struct { int alive; kernel_t kernels[16]; int count; } module_t;
typedef struct { int kind; kernel_t kernel; unsigned dims[6], shared; uint64_t stream; void *data;
                 uint64_t count; } work_t;
typedef struct { int alive, recorded, captured; double ms; } event_t;
typedef struct { int alive; unsigned flags; int device; } stream_t;
enum { LAUNCH, FREE, RECORD };

static pthread_mutex_t lock;
static struct { char function[NAME]; int status, after; } failure;
static struct { void *start; size_t size; } memory[MAX];
static work_t queue[MAX];
static event_t events[MAX];
static stream_t streams[MAX];
static int queued, event_count, stream_count, devices = 1, version = 70253211, pools = 1, sticky;
static int cooperative = 1, resident = 2; /* blocks of a cooperative launch on a compute unit */
static struct { int count; unsigned offset[32], size[32]; } arguments; /* of those kernels */
static char arch[256] = "gfx942:sramecc+:xnack-", complaint[512];
static int warp = 64;
static size_t total = 1 << 28, used;
static launch_t on_launch;
static long calls;
static uint64_t capturing; /* the stream that is captured into a graph, 0 for none */
static int captured;
static int modules; /* that are loaded */
static __thread int current;

__attribute__((constructor)) static void start(void) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock, &a);
}

/* ------------------------------------------------------------------ what the tests turn and read */
void standin_devices(int n, const char *gcn, int warp_size) {
  devices = n; warp = warp_size; snprintf(arch, sizeof arch, "%s", gcn);
}
void standin_version(int v) { version = v; }
void standin_pools(int yes) { pools = yes; }
void standin_cooperative(int yes, int blocks) { cooperative = yes; resident = blocks; }
void standin_argument(unsigned offset, unsigned size) {
  arguments.offset[arguments.count] = offset;
  arguments.size[arguments.count++] = size;
}
void standin_fail(const char *function, int status, int after) {
  snprintf(failure.function, NAME, "%s", function);
  failure.status = status; failure.after = after;
}
void standin_on_launch(launch_t f) { on_launch = f; }
const char *standin_complaint(void) { return complaint; }
int standin_live_buffers(void) { int n = 0; for (int i = 0; i < MAX; i++) n += !!memory[i].start; return n; }
int standin_queued(void) { return queued; }
long standin_calls(void) { return calls; }
int standin_captured(void) { return captured; }
int standin_modules(void) { return modules; }

static int last;
static int refuse(int status, const char *why) { snprintf(complaint, sizeof complaint, "%s", why); return status; }
/* What HIP allows during a capture in its strictest mode, hipStreamCaptureModeGlobal. */
static int capturable(const char *function) {
  static const char *const all[] = {
      "hipModuleLaunchKernel", "hipGetDevice", "hipSetDevice", "hipStreamBeginCapture",
      "hipStreamEndCapture", "hipStreamIsCapturing", "hipEventCreateWithFlags", "hipEventRecord",
      "hipStreamWaitEvent", "hipMallocAsync", "hipFreeAsync"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (!strcmp(all[i], function)) return 1;
  return 0;
}
static int enter(const char *function) {
  calls++;
  if (sticky) return sticky;
  if (capturing && !capturable(function)) {
    snprintf(complaint, sizeof complaint, "%s during a capture", function);
    return CAPTURE_UNSUPPORTED;
  }
  if (failure.status && !strcmp(failure.function, function) && failure.after-- <= 0) {
    int status = failure.status;
    failure.status = 0;
    return status;
  }
  return OK;
}
#define ENTER() do { pthread_mutex_lock(&lock); int s_ = enter(__func__); if (s_) { pthread_mutex_unlock(&lock); return s_; } } while (0)
#define LEAVE(x) do { int r_ = (x); pthread_mutex_unlock(&lock); return r_; } while (0)

static int owner(const void *p, size_t n) {
  for (int i = 0; i < MAX; i++)
    if (memory[i].start && (char *)p >= (char *)memory[i].start &&
        (char *)p + n <= (char *)memory[i].start + memory[i].size) return i;
  return -1;
}
static int release(void *p) {
  int i = owner(p, 0);
  if (i < 0 || memory[i].start != p) return refuse(INVALID_VALUE, "freeing memory that was not allocated");
  used -= memory[i].size;
  memset(p, 0xDD, memory[i].size); /* a use after free reads garbage */
  free(p);
  memory[i].start = NULL;
  return OK;
}
static int known_stream(uint64_t s) {
  return !s || (s % 16 == 0 && s / 16 <= (uint64_t)stream_count && streams[s / 16 - 1].alive);
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
static int run(void) { /* all queued work, in the order it came: any stream's order is kept by that */
  int status = OK;
  for (int i = 0; i < queued; i++) {
    work_t *w = &queue[i];
    if (w->kind == FREE) release(w->data);
    if (w->kind == RECORD) { event_t *e = w->data; e->recorded = 1; e->ms = now(); }
    if (w->kind == LAUNCH) {
      int s = on_launch ? on_launch(w->kernel.name, w->dims, w->shared, w->stream, w->data, w->count) : OK;
      if (s && !status) status = sticky = s; /* a fault stays, as on hardware */
      free(w->data);
    }
  }
  queued = 0;
  return status;
}
static work_t *enqueue(int kind) {
  if (queued == MAX) run();
  work_t *w = &queue[queued++];
  memset(w, 0, sizeof *w);
  w->kind = kind;
  return w;
}

/* ----------------------------------------------------------------------------- device and version */
int hipInit(unsigned flags) { (void)flags; ENTER(); LEAVE(OK); }
int hipRuntimeGetVersion(int *v) { ENTER(); *v = version; LEAVE(OK); }
int hipDriverGetVersion(int *v) { ENTER(); *v = version; LEAVE(OK); }
int hipGetDeviceCount(int *n) { ENTER(); *n = devices; LEAVE(devices ? OK : NO_DEVICE); }
int hipGetDevice(int *d) { ENTER(); *d = current; LEAVE(OK); }
int hipSetDevice(int d) { ENTER(); if (d < 0 || d >= devices) LEAVE(INVALID_DEVICE); current = d; LEAVE(OK); }
int hipDeviceSynchronize(void) { ENTER(); LEAVE(run()); }
int hipDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER(); (void)device;
  if (attribute == 88) *value = pools; /* hipDeviceAttributeMemoryPoolsSupported */
  else if (attribute == 10) *value = cooperative; /* hipDeviceAttributeCooperativeLaunch */
  else LEAVE(refuse(INVALID_VALUE, "an attribute that the stand-in does not have"));
  LEAVE(OK);
}
int hipDeviceCanAccessPeer(int *can, int device, int peer) {
  ENTER();
  if (device < 0 || peer < 0 || device >= devices || peer >= devices) LEAVE(INVALID_DEVICE);
  *can = device != peer && device + peer != 3; /* of three or more, not 1 and 2 */
  LEAVE(OK);
}
int hipMemGetInfo(size_t *left, size_t *all) { ENTER(); *left = total - used; *all = total; LEAVE(OK); }
#ifndef STANDIN_OLD /* ROCm 5 has no such function */
int hipGetDevicePropertiesR0600(char *p, int device) {
  ENTER();
  if (device < 0 || device >= devices) LEAVE(INVALID_DEVICE);
  memset(p, 0, PROPERTIES);
  strcpy(p, "stand-in, not a GPU");
  *(size_t *)(p + 288) = total;
  *(size_t *)(p + 296) = SHARED;
  *(int *)(p + 308) = warp;
  *(int *)(p + 320) = THREADS;
  for (int i = 0; i < 3; i++) {
    ((int *)(p + 324))[i] = THREADS;
    ((int *)(p + 336))[i] = i ? 65536 : 2147483647;
  }
  *(int *)(p + 388) = COMPUTE_UNITS;
  strcpy(p + 1160, arch);
  LEAVE(OK);
}
#endif
int hipGetLastError(void) { int was = last; last = OK; return was; } /* of captures only */
const char *hipGetErrorString(int status) { (void)status; return "a text of the stand-in"; }
const char *hipGetErrorName(int status) { (void)status; return "hipErrorOfTheStandIn"; }

/* ------------------------------------------------------------------------------------------ memory */
static int allocate(void **p, size_t n) {
  if (n > total - used) return OUT_OF_MEMORY;
  for (int i = 0; i < MAX; i++) {
    if (memory[i].start) continue;
    if (posix_memalign(&memory[i].start, 256, n ? n : 1)) return OUT_OF_MEMORY;
    memset(memory[i].start, 0xA5, n); /* never zero by luck */
    memory[i].size = n;
    used += n;
    *p = memory[i].start;
    return OK;
  }
  return OUT_OF_MEMORY;
}
static uint64_t kept[MAX];
int hipMalloc(void **p, size_t n) { ENTER(); LEAVE(allocate(p, n)); }
int hipFree(void *p) { ENTER(); int s = run(); LEAVE(s ? s : release(p)); }
int hipMallocAsync(void **p, size_t n, uint64_t s) {
  ENTER();
  if (!pools) LEAVE(801);
  if (capturing && !s) LEAVE(refuse(CAPTURE_IMPLICIT, "allocating on the null stream during a capture"));
  LEAVE(known_stream(s) ? allocate(p, n) : refuse(CONTEXT_DESTROYED, "allocating on an unknown stream"));
}
int hipDeviceGetDefaultMemPool(uint64_t *pool, int device) { ENTER(); *pool = 1 + (uint64_t)device; LEAVE(OK); }
int hipMemPoolSetAttribute(uint64_t pool, int what, uint64_t *value) { ENTER(); if (what == 4) kept[pool] = *value; LEAVE(OK); }
int hipMemPoolGetAttribute(uint64_t pool, int what, uint64_t *value) { ENTER(); *value = what == 4 ? kept[pool] : 0; LEAVE(OK); }
int hipMemPoolTrimTo(uint64_t pool, size_t least) { ENTER(); (void)pool, (void)least; LEAVE(OK); }
int hipFreeAsync(void *p, uint64_t s) {
  ENTER();
  if (!known_stream(s)) LEAVE(refuse(CONTEXT_DESTROYED, "freeing on an unknown stream"));
  if (owner(p, 0) < 0) LEAVE(refuse(INVALID_VALUE, "freeing memory that was not allocated"));
  if (capturing && !s) LEAVE(refuse(CAPTURE_IMPLICIT, "freeing on the null stream during a capture"));
  enqueue(FREE)->data = p;
  LEAVE(OK);
}
int hipMemcpyWithStream(void *to, const void *from, size_t n, int kind, uint64_t s) {
  ENTER();
  if (!known_stream(s)) LEAVE(refuse(CONTEXT_DESTROYED, "copying on an unknown stream"));
  int status = run();
  if (status) LEAVE(status);
  if (owner(kind == 1 ? to : from, n) < 0 || (kind != 1 && kind != 2))
    LEAVE(refuse(INVALID_VALUE, "copying beyond an allocation"));
  memcpy(to, from, n);
  LEAVE(OK);
}

/* ------------------------------------------------------------------------------ streams and events */
int hipStreamCreateWithFlags(uint64_t *s, unsigned flags) {
  ENTER();
  streams[stream_count] = (stream_t){1, flags, current};
  *s = 16 * (uint64_t)++stream_count;
  LEAVE(OK);
}
int hipStreamDestroy(uint64_t s) {
  ENTER();
  if (!s || !known_stream(s)) LEAVE(refuse(INVALID_HANDLE, "destroying an unknown stream"));
  int status = run();
  streams[s / 16 - 1].alive = 0;
  LEAVE(status);
}
int hipStreamSynchronize(uint64_t s) { ENTER(); LEAVE(known_stream(s) ? run() : refuse(INVALID_HANDLE, "unknown stream")); }
int hipStreamWaitEvent(uint64_t s, event_t *e, unsigned flags) {
  ENTER(); (void)flags;
  if (!known_stream(s) || !e || !e->alive) LEAVE(refuse(INVALID_HANDLE, "waiting for an unknown event"));
  if (capturing && s == capturing && !e->captured)
    LEAVE(refuse(CAPTURE_ISOLATION, "a captured stream waits for an event outside of the capture"));
  if (capturing && !s) LEAVE(refuse(CAPTURE_IMPLICIT, "the null stream waits during a capture"));
  LEAVE(OK);
}
int hipStreamIsCapturing(uint64_t s, int *status) {
  ENTER();
  if (!known_stream(s)) LEAVE(refuse(INVALID_HANDLE, "unknown stream"));
  if (capturing && !s) LEAVE(last = CAPTURE_IMPLICIT); /* as HIP 7.2.4: *status is left as it was */
  *status = capturing && s == capturing;
  LEAVE(OK);
}
int hipStreamBeginCapture(uint64_t s, int mode) {
  ENTER(); (void)mode;
  if (!s || !known_stream(s) || capturing) LEAVE(refuse(CAPTURE_UNSUPPORTED, "no such stream to capture"));
  capturing = s;
  LEAVE(OK);
}
int hipStreamEndCapture(uint64_t s, uint64_t *graph) {
  ENTER();
  if (s != capturing) LEAVE(refuse(INVALID_HANDLE, "this stream is not captured"));
  capturing = 0;
  *graph = s;
  LEAVE(OK);
}
int hipEventCreateWithFlags(event_t **e, unsigned flags) {
  ENTER(); (void)flags;
  *e = &events[event_count++ % MAX];
  **e = (event_t){1, 0, 0, 0};
  LEAVE(OK);
}
int hipEventRecord(event_t *e, uint64_t s) {
  ENTER();
  if (!e || !e->alive || !known_stream(s)) LEAVE(refuse(INVALID_HANDLE, "recording an unknown event"));
  if (capturing && !s) LEAVE(refuse(CAPTURE_IMPLICIT, "recording on the null stream during a capture"));
  e->captured = capturing && s == capturing;
  enqueue(RECORD)->data = e;
  LEAVE(OK);
}
int hipEventSynchronize(event_t *e) { ENTER(); LEAVE(e && e->alive ? run() : refuse(INVALID_HANDLE, "unknown event")); }
int hipEventElapsedTime(float *ms, event_t *from, event_t *to) {
  ENTER();
  if (!from->alive || !to->alive) LEAVE(INVALID_HANDLE);
  if (!from->recorded || !to->recorded) LEAVE(600);
  *ms = (float)(to->ms - from->ms);
  LEAVE(OK);
}
int hipEventDestroy(event_t *e) { ENTER(); if (!e->alive) LEAVE(INVALID_HANDLE); int s = run(); e->alive = 0; LEAVE(s); }

/* ------------------------------------------------------------------------------ modules and launch */
int hipModuleLoadData(module_t **m, const char *image) {
  ENTER();
  const Elf64_Ehdr *h = (const Elf64_Ehdr *)image;
  if (memcmp(h->e_ident, ELFMAG, 4) || h->e_machine != 224) LEAVE(refuse(INVALID_IMAGE, "not a code object"));
  module_t *made = calloc(1, sizeof *made);
  made->alive = 1;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + h->e_shoff);
  for (int i = 0; i < h->e_shnum; i++) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[i].sh_offset);
    const char *names = image + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
      const char *name = names + symbols[k].st_name;
      size_t length = strlen(name);
      if (length < 4 || strcmp(name + length - 3, ".kd") || made->count == 16) continue;
      const Elf64_Shdr *home = &sections[symbols[k].st_shndx];
      const uint32_t *descriptor =
          (const uint32_t *)(image + home->sh_offset + symbols[k].st_value - home->sh_addr);
      kernel_t *kernel = &made->kernels[made->count++];
      snprintf(kernel->name, sizeof kernel->name, "%.*s", (int)length - 3, name);
      kernel->group = descriptor[0];   /* group_segment_fixed_size */
      kernel->kernarg = descriptor[2]; /* kernarg_size */
    }
  }
  *m = made;
  modules++;
  LEAVE(OK);
}
int hipModuleUnload(module_t *m) {
  ENTER();
  if (!m || !m->alive) LEAVE(refuse(INVALID_HANDLE, "unloading a module that is not loaded"));
  int status = run();
  modules--;
  m->alive = 0; /* its memory stays, so that a late launch is seen */
  LEAVE(status);
}
int hipModuleGetFunction(kernel_t **f, module_t *m, const char *name) {
  ENTER();
  if (!m || !m->alive) LEAVE(refuse(INVALID_HANDLE, "looking into a module that is not loaded"));
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->kernels[i].name, name)) { *f = &m->kernels[i]; LEAVE(OK); }
  LEAVE(NOT_FOUND);
}
/* What both kinds of launch do once the argument bytes are known. */
static int start_kernel(kernel_t *f, const unsigned *d, unsigned shared, uint64_t stream,
                        const void *data, uint64_t size) {
  if (!known_stream(stream)) return refuse(CONTEXT_DESTROYED, "launching on an unknown stream");
  if (!d[0] || !d[1] || !d[2] || (uint64_t)d[0] * d[3] >> 32) return refuse(INVALID_VALUE, "bad grid");
  if (!d[3] || !d[4] || !d[5]) return refuse(INVALID_CONFIGURATION, "bad block");
  if (d[3] * d[4] * d[5] > THREADS || shared + f->group > SHARED)
    return refuse(INVALID_VALUE, "too large a block");
  if (capturing) {
    if (stream != capturing) return refuse(CAPTURE_UNSUPPORTED, "launching beside a capture");
    captured++; /* a node of the graph: nothing runs */
    return OK;
  }
  work_t *w = enqueue(LAUNCH);
  w->kernel = *f;
  memcpy(w->dims, d, sizeof w->dims);
  w->shared = shared; w->stream = stream; w->count = size;
  w->data = malloc(size);
  memcpy(w->data, data, size);
  return OK;
}
int hipModuleLaunchKernel(kernel_t *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, uint64_t stream, void **params,
                          void **extra) {
  ENTER();
  uint64_t *e = (uint64_t *)extra;
  if (params || !e || e[0] != 1 || e[2] != 2 || e[4] != 3)
    LEAVE(refuse(INVALID_VALUE, "the launch has no argument buffer in the documented form"));
  uint64_t size = *(uint64_t *)e[3];
  if (size != f->kernarg) {
    snprintf(complaint, sizeof complaint, "%s reads %u argument bytes, and was given %lu", f->name,
             f->kernarg, (unsigned long)size);
    LEAVE(INVALID_VALUE);
  }
  LEAVE(start_kernel(f, (unsigned[]){gx, gy, gz, bx, by, bz}, shared, stream, (void *)e[1], size));
}
int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, kernel_t *f, int threads, size_t shared) {
  ENTER(); (void)f;
  *blocks = threads < 1 || threads > THREADS || shared > SHARED ? 0 : resident;
  LEAVE(OK);
}
int hipModuleLaunchCooperativeKernel(kernel_t *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared, uint64_t stream,
                                     void **params) {
  ENTER();
  if (!cooperative) LEAVE(801);
  if (!params) LEAVE(refuse(INVALID_VALUE, "the launch has no arguments"));
  if ((uint64_t)gx * gy * gz > (uint64_t)resident * COMPUTE_UNITS)
    LEAVE(refuse(TOO_MANY_BLOCKS, "more blocks than fit at the same time"));
  char data[4096] = {0};
  for (int i = 0; i < arguments.count; i++)
    memcpy(data + arguments.offset[i], params[i], arguments.size[i]);
  LEAVE(start_kernel(f, (unsigned[]){gx, gy, gz, bx, by, bz}, shared, stream, data, f->kernarg));
}
