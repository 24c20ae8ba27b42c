/* A functional model of AMD GPUs for AMD's own HSA run time, which loads it in place of the kernel
 * driver (HSA_MODEL_LIB; the interface is libhsakmt's hsakmtmodeliface.h, version 0.4).
 *
 * It has queues and no arithmetic: each queue of the run time has a thread that takes its packets in
 * order. Copies and fences are done here. A kernel's dispatch goes to the executor, a process of its
 * own, started at the first dispatch, which maps the same memory and runs the code in it.
 *
 * XTARGET_TEST_RIG_EXECUTOR  the program; it gets a socket as its descriptor 3
 * XTARGET_TEST_RIG_FAULT     "silent": no packet is ever answered; "hung": no dispatch of a kernel is;
 *                       "stuck": no copy is; "late": a dispatch is once the file
 *                       XTARGET_TEST_RIG_GATE exists; "lost": the device goes away at the first one
 * XTARGET_TEST_RIG_LOG       a file that gets a line for each packet
 *
 * Sources: HSA Platform System Architecture Specification 1.2, "AQL packets" and "Signals";
 * Linux, kfd_ioctl.h; Mesa and Linux, headers of the SDMA engine's packets.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DEVICES = 16, PACKET_BYTES = 64, QUEUE_COMPUTE_AQL = 2 };
enum { COMMANDS = 1, WAIT_FOR_VALUE = 2 }; /* formats of AMD's own packets */
enum { VENDOR = 0, INVALID = 1, DISPATCH = 2, BARRIER_AND = 3, BARRIER_OR = 5 };

typedef void (*set_event_t)(void *data, unsigned event);

typedef struct {
  int number;
  uint8_t *base; /* GPU address 0 */
  set_event_t set_event;
  void *event_data;
} device;

struct queue_info {
  uint64_t ring, write_at, read_at, *doorbell;
  uint32_t bytes, type;
};

typedef struct {
  device *of;
  struct queue_info info;
  pthread_t thread;
  atomic_bool stop;
} queue;

/* amd_signal_t */
typedef struct {
  int64_t kind;
  _Atomic int64_t value;
  uint64_t mailbox;
  uint32_t event, reserved;
  uint64_t start, end;
} signal_t;

static int devices;
static enum { NONE, SILENT, HUNG, STUCK, LATE, LOST } fault;
static const char *gate = "";
static FILE *log_file;

static void say(const char *format, ...) {
  if (!log_file) return;
  va_list list;
  va_start(list, format);
  vfprintf(log_file, format, list);
  va_end(list);
  fflush(log_file);
}

static void die(const char *why) {
  fprintf(stderr, "rocm_rig: %s\n", why);
  abort();
}

static void *at(device *d, uint64_t address) { return d->base + address; }

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Sleeps longer the longer nothing came, so that idle queues cost nothing. */
static void nap(unsigned *turns) {
  unsigned us = *turns < 50 ? 20 : *turns < 1000 ? 100 : 1000;
  ++*turns;
  nanosleep(&(struct timespec){0, us * 1000L}, NULL);
}

/* ------------------------------------------------------------------------------- the executor */

struct request {
  uint32_t device, reserved;
  uint64_t base;
  uint8_t packet[PACKET_BYTES];
};

static pthread_mutex_t executor_lock = PTHREAD_MUTEX_INITIALIZER;
static int executor = -1;

static void start_executor(void) {
  const char *program = getenv("XTARGET_TEST_RIG_EXECUTOR");
  int ends[2];
  if (!program) die("XTARGET_TEST_RIG_EXECUTOR names no program that runs kernels");
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) die("no socket for the executor");
  pid_t child = vfork();
  if (child == 0) {
    if (ends[1] == 3)
      fcntl(3, F_SETFD, 0);
    else
      dup2(ends[1], 3);
    execl(program, program, (char *)NULL);
    _exit(127);
  }
  if (child < 0) die("the executor cannot be started");
  close(ends[1]);
  executor = ends[0];
}

static bool transfer(bool sending, void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = sending ? send(executor, (char *)data + done, bytes - done, MSG_NOSIGNAL)
                        : recv(executor, (char *)data + done, bytes - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return true;
}

/* As with a GPU, a kernel that faults takes the process with it; the executor has said why. */
static void dispatch(device *d, const void *packet) {
  struct request request = {(uint32_t)d->number, 0, (uint64_t)d->base, {0}};
  int32_t status = -1;
  memcpy(request.packet, packet, PACKET_BYTES);
  pthread_mutex_lock(&executor_lock);
  if (executor < 0) start_executor();
  bool answered = transfer(true, &request, sizeof request) && transfer(false, &status, sizeof status);
  pthread_mutex_unlock(&executor_lock);
  if (!answered) die("the executor ended");
  if (status) die("a kernel failed, which ends the process as on a GPU");
}

/* --------------------------------------------------------------------------------- AQL queues */

static void complete(device *d, uint64_t address, uint64_t started) {
  if (!address) return;
  signal_t *s = at(d, address);
  s->start = started;
  s->end = now();
  atomic_fetch_sub(&s->value, 1);
  if (s->mailbox) {
    *(volatile uint64_t *)at(d, s->mailbox) = s->event;
    if (s->event) d->set_event(d->event_data, s->event);
  }
}

static bool reached(int64_t value, uint32_t condition, int64_t wanted) {
  switch (condition) {
    case 0: return value == wanted;
    case 1: return value != wanted;
    case 2: return value < wanted;
    default: return value >= wanted;
  }
}

static bool barrier_open(device *d, const uint64_t *signals, bool all) {
  int some = 0, open = 0;
  for (int i = 0; i < 5; i++) {
    if (!signals[i]) continue;
    some++;
    open += atomic_load(&((signal_t *)at(d, signals[i]))->value) == 0;
  }
  return all ? open == some : open > 0 || some == 0;
}

/* A barrier that waits for a value (AMD's vendor packet 2). */
static bool value_open(device *d, const uint8_t *packet) {
  uint64_t address = *(const uint64_t *)(packet + 8);
  int64_t wanted = *(const int64_t *)(packet + 16), mask = *(const int64_t *)(packet + 24);
  if (!address) return true;
  int64_t value = atomic_load(&((signal_t *)at(d, address))->value) & mask;
  return reached(value, *(const uint32_t *)(packet + 32), wanted);
}

static void take(queue *q, uint8_t *packet, int type) {
  device *d = q->of;
  unsigned turns = 0;
  if (type == DISPATCH) {
    if (fault == LOST) die("Memory access fault: the device is gone");
    while (fault == HUNG && !q->stop) nap(&turns);
    while (fault == LATE && !q->stop && access(gate, F_OK)) nap(&turns);
    dispatch(d, packet);
  } else if (type == BARRIER_AND || type == BARRIER_OR) {
    while (!q->stop && !barrier_open(d, (uint64_t *)(packet + 8), type == BARRIER_AND)) nap(&turns);
  } else if (type == VENDOR && packet[2] == WAIT_FOR_VALUE) {
    while (!q->stop && !value_open(d, packet)) nap(&turns);
  } else if (type == VENDOR && packet[2] == COMMANDS) {
    /* of the command processor: the run time has it forget its caches, of which there are none */
  } else {
    fprintf(stderr, "rocm_rig: a packet of type %d, format %d\n", type, packet[2]);
    die("this packet is none that the model knows");
  }
}

static void *run_aql(void *argument) {
  queue *q = argument;
  device *d = q->of;
  uint64_t slots = q->info.bytes / PACKET_BYTES, read = *(volatile uint64_t *)at(d, q->info.read_at);
  unsigned turns = 0;
  while (!q->stop) {
    uint8_t *packet = (uint8_t *)at(d, q->info.ring) + PACKET_BYTES * (read % slots);
    uint64_t written = __atomic_load_n((uint64_t *)at(d, q->info.write_at), __ATOMIC_ACQUIRE);
    uint16_t header = __atomic_load_n((uint16_t *)packet, __ATOMIC_ACQUIRE);
    if (fault == SILENT || read >= written || (header & 255) == INVALID) {
      nap(&turns);
      continue;
    }
    turns = 0;
    uint64_t signal = *(uint64_t *)(packet + 56), started = now();
    say("device %d packet %llu type %d\n", d->number, (unsigned long long)read, header & 255);
    take(q, packet, header & 255);
    complete(d, signal, started);
    __atomic_store_n((uint16_t *)packet, INVALID, __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)at(d, q->info.read_at), ++read, __ATOMIC_RELEASE);
  }
  return NULL;
}

/* -------------------------------------------------------------------------------- SDMA queues */

static bool poll_open(device *d, const uint32_t *word) {
  uint64_t address = *(const uint64_t *)(word + 1);
  uint32_t value = __atomic_load_n((uint32_t *)at(d, address), __ATOMIC_ACQUIRE) & word[4];
  switch (word[0] >> 28 & 7) {
    case 1: return value < word[3];
    case 2: return value <= word[3];
    case 3: return value == word[3];
    case 4: return value != word[3];
    case 5: return value >= word[3];
    case 6: return value > word[3];
    default: return true;
  }
}

static void fill(device *d, const uint32_t *word) {
  uint8_t *to = at(d, *(const uint64_t *)(word + 1));
  bool words = (word[0] >> 30) == 2;
  uint64_t bytes = (word[4] & 0x3fffffff) + (words ? 4 : 1);
  if (!words) {
    memset(to, (int)word[3], bytes);
    return;
  }
  for (uint64_t i = 0; i < bytes / 4; i++) memcpy(to + 4 * i, word + 3, 4);
}

/* Does one packet; returns its length in words. */
static unsigned transfer_packet(queue *q, const uint32_t *word) {
  enum { NOP, COPY, WRITE, FENCE = 5, TRAP, POLL = 8, ATOMIC = 10, FILL, STAMP = 13, GCR = 17 };
  device *d = q->of;
  unsigned operation = word[0] & 255, kind = word[0] >> 8 & 255, turns = 0;
  say("device %d transfer %u.%u\n", d->number, operation, kind);
  if (operation == NOP) return 1 + (word[0] >> 16 & 0x3fff);
  while (operation == COPY && fault == STUCK && !q->stop) nap(&turns);
  if (operation == COPY && kind == 0) {
    uint64_t bytes = (word[1] & 0x3fffffff) + 1ull;
    memcpy(at(d, *(const uint64_t *)(word + 5)), at(d, *(const uint64_t *)(word + 3)), bytes);
    return 7;
  }
  if (operation == FENCE) {
    *(volatile uint32_t *)at(d, *(const uint64_t *)(word + 1)) = word[3];
    return 4;
  }
  if (operation == TRAP) {
    if (word[1] & 0xfffffff) d->set_event(d->event_data, word[1] & 0xfffffff);
    return 2;
  }
  if (operation == POLL) {
    bool memory = word[0] >> 31 && !(word[0] >> 26 & 1);
    while (memory && !q->stop && !poll_open(d, word)) nap(&turns);
    return 6;
  }
  if (operation == ATOMIC && (word[0] >> 25 & 127) == 47) { /* 64-bit add */
    int64_t value = *(const int64_t *)(word + 3);
    __atomic_add_fetch((int64_t *)at(d, *(const uint64_t *)(word + 1)), value, __ATOMIC_SEQ_CST);
    return 8;
  }
  if (operation == FILL) {
    fill(d, word);
    return 5;
  }
  if (operation == STAMP) {
    *(uint64_t *)at(d, *(const uint64_t *)(word + 1)) = now();
    return 3;
  }
  if (operation == GCR) return 5;
  fprintf(stderr, "rocm_rig: an SDMA packet 0x%08x\n", word[0]);
  die("this transfer is none that the model knows");
  return 0;
}

static void *run_sdma(void *argument) {
  queue *q = argument;
  device *d = q->of;
  uint64_t read = *(volatile uint64_t *)at(d, q->info.read_at);
  uint8_t *ring = at(d, q->info.ring);
  unsigned turns = 0;
  while (!q->stop) {
    uint64_t written = __atomic_load_n((uint64_t *)at(d, q->info.write_at), __ATOMIC_ACQUIRE);
    if (fault == SILENT || read >= written) {
      nap(&turns);
      continue;
    }
    turns = 0;
    uint32_t word[8];
    for (unsigned i = 0; i < 8; i++) memcpy(word + i, ring + (read + 4 * i) % q->info.bytes, 4);
    read += 4 * transfer_packet(q, word);
    __atomic_store_n((uint64_t *)at(d, q->info.read_at), read, __ATOMIC_RELEASE);
  }
  return NULL;
}

/* ------------------------------------------------------------------------------ the interface */

static device *create(void) {
  if (devices == MOST_DEVICES) die("too many devices");
  device *d = calloc(1, sizeof *d);
  d->number = devices++;
  return d;
}
static void destroy(device *d) { (void)d; }
static void set_aperture(device *d, void *base, uint64_t bytes) {
  (void)bytes;
  d->base = base;
}
static void allocated(device *d, void *address, uint64_t bytes, uint32_t flags) {
  say("device %d allocates %llu at %p, flags 0x%x\n", d->number, (unsigned long long)bytes, address, flags);
}
static void freed(device *d, void *address, uint64_t bytes) {
  say("device %d frees %llu at %p\n", d->number, (unsigned long long)bytes, address);
}
static void set_notify(device *d, void (*f)(void *), void *data) { (void)d, (void)f, (void)data; }
static void set_wait(device *d, void (*f)(void *, uint64_t, uint64_t), void *data) {
  (void)d, (void)f, (void)data;
}
static void set_set_event(device *d, set_event_t f, void *data) {
  d->set_event = f;
  d->event_data = data;
}
static queue *add_queue(device *d, struct queue_info *info) {
  queue *q = calloc(1, sizeof *q);
  q->of = d;
  q->info = *info;
  void *(*run)(void *) = info->type == QUEUE_COMPUTE_AQL ? run_aql : run_sdma;
  if (pthread_create(&q->thread, NULL, run, q)) die("no thread for a queue");
  return q;
}
static void remove_queue(device *d, queue *q) {
  (void)d;
  q->stop = true;
  pthread_join(q->thread, NULL);
  free(q);
}

static const struct {
  uint32_t major, minor;
  device *(*create)(void);
  void (*destroy)(device *);
  void (*set_aperture)(device *, void *, uint64_t);
  void (*allocated)(device *, void *, uint64_t, uint32_t);
  void (*freed)(device *, void *, uint64_t);
  void (*set_notify)(device *, void (*)(void *), void *);
  void (*set_wait)(device *, void (*)(void *, uint64_t, uint64_t), void *);
  queue *(*add_queue)(device *, struct queue_info *);
  void (*set_set_event)(device *, set_event_t, void *);
  void (*remove_queue)(device *, queue *);
} functions = {0,          4,         create,        destroy,  set_aperture, allocated, freed,
               set_notify, set_wait, add_queue, set_set_event, remove_queue};

__attribute__((visibility("default"))) const void *get_hsakmt_model_functions(void) {
  const char *name = getenv("XTARGET_TEST_RIG_FAULT"), *path = getenv("XTARGET_TEST_RIG_LOG");
  fault = !name                    ? NONE
          : !strcmp(name, "silent") ? SILENT
          : !strcmp(name, "hung")   ? HUNG
          : !strcmp(name, "stuck")  ? STUCK
          : !strcmp(name, "late")   ? LATE
          : !strcmp(name, "lost")   ? LOST
                                    : NONE;
  if (getenv("XTARGET_TEST_RIG_GATE")) gate = getenv("XTARGET_TEST_RIG_GATE");
  if (path) log_file = fopen(path, "ae");
  return &functions;
}
