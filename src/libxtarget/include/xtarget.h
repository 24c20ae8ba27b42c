/* xtarget.h: call the kernels of a bundle (`.xtb`) from C and C++, without Python and Triton.
 *
 *   xtarget_bundle *bundle;
 *   xtarget_device *device;
 *   xtarget_kernel *softmax;
 *   xtarget_bundle_open("kernels.xtb", NULL, &bundle);
 *   xtarget_device_open(XTARGET_OPENCL, 0, &device);
 *   xtarget_kernel_get(bundle, device, "softmax", "float32", NULL, 0, &softmax);
 *   xtarget_kernel_call(softmax, queue, &x, 1, &out, 1);
 *
 * Every function that gives an `int` gives XTARGET_OK or one of the errors below;
 * `xtarget_message()` is then the sentence that says what is wrong and what to do. All functions
 * may be called from several threads at once. The functions and structures of one
 * XTARGET_ABI_VERSION do not change; new ones may be added.
 *
 * The variable XTARGET_LOG has a line on stderr for each error (`error`), for what is opened, loaded
 * and compiled too (`info`), for each call that is looked up, and each launch of a function (`debug`).
 */
#ifndef XTARGET_H
#define XTARGET_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define XTARGET_API __attribute__((visibility("default")))
#else
#define XTARGET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define XTARGET_ABI_VERSION 1

enum {
  XTARGET_OK = 0,
  XTARGET_BAD_ARGUMENT = 1,  /* what was given does not fit the kernel or the function */
  XTARGET_BAD_BUNDLE = 2,    /* the file cannot be read, is damaged, or is no bundle */
  XTARGET_NEWER_BUNDLE = 3,  /* its format is newer than this library */
  XTARGET_NOT_TRUSTED = 4,   /* no signature by a key that is trusted */
  XTARGET_NOT_IN_BUNDLE = 5, /* the bundle lacks the kernel, the target, or such a call */
  XTARGET_NO_DRIVER = 6,     /* the vendor's library is not there, too old, or without a device */
  XTARGET_DRIVER_FAILED = 7, /* the vendor's library refused */
  XTARGET_OUT_OF_MEMORY = 8,
  XTARGET_NO_SERVER = 9, /* the compile server is not there, is too slow, or sent what is refused */
  XTARGET_NOT_IN_LOCK = 10, /* the lock lacks a binary, or cannot be read */
  XTARGET_NOT_BUILT = 11    /* a library's kernels could not be built */
};

enum { XTARGET_CUDA = 1, XTARGET_HIP = 2, XTARGET_LEVEL_ZERO = 3, XTARGET_OPENCL = 4 };

enum {
  XTARGET_BOOL, XTARGET_INT8, XTARGET_INT16, XTARGET_INT32, XTARGET_INT64, XTARGET_UINT8,
  XTARGET_UINT16, XTARGET_UINT32, XTARGET_UINT64, XTARGET_FLOAT16, XTARGET_BFLOAT16,
  XTARGET_FLOAT32, XTARGET_FLOAT64, XTARGET_FLOAT8_E4M3FN, XTARGET_FLOAT8_E5M2, XTARGET_DTYPE_COUNT
};

typedef struct xtarget_bundle xtarget_bundle;
typedef struct xtarget_device xtarget_device;
typedef struct xtarget_kernel xtarget_kernel;
typedef struct xtarget_function xtarget_function;

/* An array where the device's kernels reach it. */
typedef struct xtarget_tensor {
  void *data;
  int32_t dtype;
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides; /* in elements; NULL: C order without gaps */
  int32_t device_type;    /* DLPack's number; 0: not said */
  int32_t device_id;
} xtarget_tensor;

/* XTARGET_UNSIGNED: a number of 64 bits without a sign, in `integer`. XTARGET_TEXT: for
 * xtarget_kernel_launch. */
enum { XTARGET_ABSENT, XTARGET_TENSOR, XTARGET_INTEGER, XTARGET_REAL, XTARGET_UNSIGNED, XTARGET_TEXT };

/* An argument: an array, a number in the place of one, or nothing where the kernel allows that. */
typedef struct xtarget_argument {
  int32_t kind;
  int32_t reserved; /* 0 */
  xtarget_tensor tensor;
  int64_t integer;
  double real;
} xtarget_argument;

/* An option of a kernel: {"axis", "1"}, {"approximate", "tanh"}, {"keepdims", "true"}. */
typedef struct xtarget_option {
  const char *name;
  const char *value;
} xtarget_option;

/* The calling thread's last error, in one or two sentences; it stays until the thread's next. */
XTARGET_API const char *xtarget_message(void);
XTARGET_API const char *xtarget_version(void);
XTARGET_API int xtarget_abi_version(void);

/* Open a bundle. `trust` names a file with the public keys that are trusted (PEM, or 64 hexadecimal
 * digits a line); NULL: the one that the variable XTARGET_TRUST names; "": signatures are not
 * checked. Only parts that are asked for are read, and nothing is used before its digest was
 * compared. The file may be replaced (renamed over) while it is open. Where the variable XTARGET_LOCK
 * names a lock (`xtarget lock --bundle`), only binaries that it has are loaded, from the bundle and
 * from its compile server: others are XTARGET_NOT_IN_LOCK. */
XTARGET_API int xtarget_bundle_open(const char *path, const char *trust, xtarget_bundle **bundle);
/* The same of bytes that stay where they are: of a file that the caller mapped, or that were linked
 * into the program. */
XTARGET_API int xtarget_bundle_open_memory(const void *bytes, size_t size, const char *trust,
                                           xtarget_bundle **bundle);
/* Have a compile server (`xtarget serve --listen unix:/PATH`) make the calls that the bundle lacks,
 * for kernels that are taken after this. Without it such a call is XTARGET_NOT_IN_BUNDLE. `server` is
 * "unix:/PATH"; NULL: the one that the variable XTARGET_COMPILE_SERVER names; "": none again.
 * `seconds` is the longest that a call may wait for it. What the server sends has to be signed as
 * the bundle's `trust` says, its sha256 and the request that it names are compared, and the server
 * has to run as the program's own user or root. It is kept as long as the kernel; the server keeps
 * it in its cache. */
XTARGET_API int xtarget_bundle_compile_by(xtarget_bundle *bundle, const char *server, double seconds);
/* Kernels that were taken from it stay usable. */
XTARGET_API void xtarget_bundle_close(xtarget_bundle *bundle);
/* Read and check every part that this library may use. */
XTARGET_API int xtarget_bundle_verify(xtarget_bundle *bundle);
/* The signer's public key in hexadecimal, once it was checked; "" where nobody asked. */
XTARGET_API const char *xtarget_bundle_signer(const xtarget_bundle *bundle);
XTARGET_API size_t xtarget_bundle_target_count(const xtarget_bundle *bundle);
/* NULL: there are fewer. */
XTARGET_API const char *xtarget_bundle_target(const xtarget_bundle *bundle, size_t index);
/* Call `each` for every kernel and dtype for a target. Another result than 0 ends that, and is
 * given back. */
XTARGET_API int xtarget_bundle_kernels(xtarget_bundle *bundle, const char *target,
                                       int (*each)(void *data, const char *kernel,
                                                   const char *dtype),
                                       void *data);

/* Open a device of a driver by its number, with the driver's primary context (CUDA, HIP) or a
 * context of its own (Level Zero, OpenCL). */
XTARGET_API int xtarget_device_open(int driver, int ordinal, xtarget_device **device);
/* A device in the caller's context: CUDA: (CUcontext, ignored); Level Zero: (ze_context_handle_t,
 * ze_device_handle_t); OpenCL: (cl_context, cl_device_id). HIP has none. The context has to live
 * longer than the device. */
XTARGET_API int xtarget_device_in(int driver, void *context, void *native, xtarget_device **device);
/* Kernels keep it open. */
XTARGET_API void xtarget_device_close(xtarget_device *device);
/* What binaries for it are called: "nvidia:sm_90". */
XTARGET_API const char *xtarget_device_target(const xtarget_device *device);
XTARGET_API const char *xtarget_device_name(const xtarget_device *device);
/* A stream of the device's own, for programs that have none: CUstream, hipStream_t (both NULL, the
 * default stream), ze_command_list_handle_t, cl_command_queue. */
XTARGET_API int xtarget_device_stream(xtarget_device *device, void **stream);
/* Wait for all work of a stream. */
XTARGET_API int xtarget_device_synchronize(xtarget_device *device, void *stream);
/* Memory that kernels and, with OpenCL on a CPU, the host use. */
XTARGET_API int xtarget_device_allocate(xtarget_device *device, size_t size, void **memory);
XTARGET_API void xtarget_device_free(xtarget_device *device, void *memory);
/* Set memory to zeros, on a stream; it does not wait. */
XTARGET_API int xtarget_device_clear(xtarget_device *device, void *stream, void *memory, size_t size);
/* Copy and wait: `to_device` is not 0 from host to device. */
XTARGET_API int xtarget_device_copy(xtarget_device *device, void *to, const void *from, size_t size,
                                    int to_device);

/* Build kernels of a kernel library's folder, or of a file FILE.py with functions of @xtarget.kernel, for
 * a device, and open the bundle: a child process runs `xtarget bundle build`, so the machine needs Python with xtarget and what compiles (the variable
 * XT_EXECUTABLE names the command, else PATH has it). What was built before comes from its cache.
 * `kernels`: "one,other"; NULL: all of the library. `dtypes`: "float32,float16". The bundle serves
 * the calls that the kernels' examples say. `seconds` is the longest that it may take. Nothing of
 * the process and no file is left afterwards. With XTARGET_TRUST, XTARGET_SIGN has to name the key
 * that signs it. */
XTARGET_API int xtarget_library_open(const char *library, xtarget_device *device, const char *kernels,
                                     const char *dtypes, double seconds, xtarget_bundle **bundle);

/* Take a kernel for arrays of a dtype ("float16"). Options that are not given have the kernel's own
 * values. */
XTARGET_API int xtarget_kernel_get(xtarget_bundle *bundle, xtarget_device *device, const char *name,
                                   const char *dtype, const xtarget_option *options,
                                   size_t option_count, xtarget_kernel **kernel);
XTARGET_API void xtarget_kernel_release(xtarget_kernel *kernel);
/* Launch on the caller's stream, and do not wait: CUstream, hipStream_t, an immediate
 * ze_command_list_handle_t, or an in-order cl_command_queue of the device's context. The first call
 * that needs a binary loads it. */
XTARGET_API int xtarget_kernel_call(xtarget_kernel *kernel, void *stream,
                                    const xtarget_argument *arguments, size_t argument_count,
                                    const xtarget_tensor *outputs, size_t output_count);
/* How many results a call of these arguments has, and their dtypes and shapes: `outputs` has room
 * for `capacity` of them, and `shapes` 16 numbers for each. */
XTARGET_API int xtarget_kernel_outputs(xtarget_kernel *kernel, const xtarget_argument *arguments,
                                       size_t argument_count, xtarget_tensor *outputs,
                                       int64_t (*shapes)[16], size_t capacity, size_t *count);

/* A kernel launches Triton functions, each in a specialization that has binaries. The following are
 * for callers that launch one with a grid and arguments of their own. Nothing is known of such a
 * launch but its parameters: what it reads and writes is the caller's business. */

/* The static signature of a function: what its specialization knows of each parameter.
 * XTARGET_PLAIN: its type; XTARGET_SPECIALIZED: that it is a multiple of 16, too;
 * XTARGET_CONSTEXPR: its value. */
enum { XTARGET_PLAIN, XTARGET_SPECIALIZED, XTARGET_CONSTEXPR };

typedef struct xtarget_parameter {
  const char *name;  /* "shape.0": the first of the tuple `shape` */
  const char *type;  /* as Triton writes it: "*fp32", "i64", "constexpr" */
  const char *value; /* of a constexpr: JSON, a dtype as "fp32"; else NULL */
  int32_t kind;
  int32_t size; /* bytes of a value: 8 of a pointer, 0 of a constexpr */
} xtarget_parameter;

typedef struct xtarget_function_facts {
  const char *source;    /* "module:function" */
  const char *signature; /* "*fp32:16,*fp32,(i32,i32),1024": parameters in the function's order, of a
                            tuple its elements, then constexprs; ":16": specialized */
  int32_t num_warps, num_stages;
  uint32_t threads, shared_bytes; /* of a block */
  size_t argument_count;          /* what a launch gives: the parameters before the constexprs */
  size_t parameter_count;
} xtarget_function_facts;

/* How many binaries of functions there are for the kernel's device. */
XTARGET_API size_t xtarget_kernel_function_count(const xtarget_kernel *kernel);
/* One of them; or that of a signature, with warps and stages (0: any). Release it before its kernel. */
XTARGET_API int xtarget_kernel_function(xtarget_kernel *kernel, size_t index,
                                        xtarget_function **function);
XTARGET_API int xtarget_kernel_function_of(xtarget_kernel *kernel, const char *signature,
                                           int num_warps, int num_stages,
                                           xtarget_function **function);
XTARGET_API void xtarget_function_release(xtarget_function *function);
/* The texts stay until the function is released. */
XTARGET_API int xtarget_function_about(const xtarget_function *function,
                                       xtarget_function_facts *facts);
XTARGET_API int xtarget_function_parameter(const xtarget_function *function, size_t index,
                                           xtarget_parameter *parameter);
/* Launch on the caller's stream and do not wait. `arguments` has the address of each value, as for
 * cuLaunchKernel: of an array that is the address of a pointer. Refused are another number of them,
 * an address that is NULL, a specialized one that is no multiple of 16, and a grid without blocks
 * or with more than 2^31 - 1, 65,535 and 65,535. */
XTARGET_API int xtarget_function_launch(xtarget_function *function, void *stream,
                                        const uint32_t grid[3], void *const *arguments,
                                        size_t argument_count);
/* The same with typed arguments: numbers have to fit, and of tensors `data`, `dtype` and the device are
 * looked at alone; an absent one is a null pointer. */
XTARGET_API int xtarget_function_call(xtarget_function *function, void *stream,
                                      const uint32_t grid[3], const xtarget_argument *arguments,
                                      size_t argument_count);
/* The same, by what was given: constexprs come behind the other arguments, and the binary that they,
 * warps and stages (0: any) fit is launched, of those that the bundle has. A constexpr is a number,
 * absent (None), or XTARGET_TEXT: what xtarget_parameter says, at `tensor.data`. Where numbers fit
 * i32 and i64, and there are binaries of both, it is that of i64. */
XTARGET_API int xtarget_kernel_launch(xtarget_kernel *kernel, void *stream, const uint32_t grid[3],
                                      int num_warps, int num_stages,
                                      const xtarget_argument *arguments, size_t argument_count);

/* A tensor as DLPack describes it (`const DLTensor *`). It refers to the same shape and strides. */
XTARGET_API int xtarget_from_dlpack(const void *dltensor, xtarget_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
