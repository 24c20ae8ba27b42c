/* xtarget.hpp: xtarget.h for C++17, header only.
 *
 *   xt::Bundle bundle{"kernels.xtb"};
 *   auto softmax = bundle.kernel("softmax", xt::f16);
 *   softmax(stream, x, out);
 *
 * Arguments are `xt::Tensor`s, `DLTensor *`s of any library's dlpack.h, and numbers; outputs come
 * last. Errors are `xt::Error`, a std::runtime_error with the status; `try_call` gives the status.
 */
#ifndef XTARGET_HPP
#define XTARGET_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "xtarget.h"

namespace xt {

class Error : public std::runtime_error {
 public:
  Error(int status, const std::string &message) : std::runtime_error(message), status_(status) {}
  /* XTARGET_NOT_IN_BUNDLE and the others of xtarget.h. */
  int status() const noexcept { return status_; }

 private:
  int status_;
};

inline void check(int status) {
  if (status != XTARGET_OK) throw Error(status, xtarget_message());
}

struct Dtype {
  std::int32_t code;
  const char *name;
};

inline constexpr Dtype b8{XTARGET_BOOL, "bool"}, i8{XTARGET_INT8, "int8"}, i16{XTARGET_INT16, "int16"},
    i32{XTARGET_INT32, "int32"}, i64{XTARGET_INT64, "int64"}, u8{XTARGET_UINT8, "uint8"},
    u16{XTARGET_UINT16, "uint16"}, u32{XTARGET_UINT32, "uint32"}, u64{XTARGET_UINT64, "uint64"},
    f16{XTARGET_FLOAT16, "float16"}, bf16{XTARGET_BFLOAT16, "bfloat16"}, f32{XTARGET_FLOAT32, "float32"},
    f64{XTARGET_FLOAT64, "float64"}, f8_e4m3fn{XTARGET_FLOAT8_E4M3FN, "float8_e4m3fn"},
    f8_e5m2{XTARGET_FLOAT8_E5M2, "float8_e5m2"};

/* The dtype of a C++ type; types of half precision have to be named. */
template <class T>
constexpr Dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return b8;
  else if constexpr (std::is_same_v<U, float>) return f32;
  else if constexpr (std::is_same_v<U, double>) return f64;
  else {
    static_assert(std::is_integral_v<U> && sizeof(U) <= 8, "give the dtype of this type");
    constexpr Dtype all[2][4] = {{u8, u16, u32, u64}, {i8, i16, i32, i64}};
    return all[std::is_signed_v<U>][sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3];
  }
}

enum Driver { cuda = XTARGET_CUDA, hip = XTARGET_HIP, level_zero = XTARGET_LEVEL_ZERO, opencl = XTARGET_OPENCL };

/* Pointer, dtype, shape, and strides in elements (none: C order). It keeps no memory. */
class Tensor {
 public:
  Tensor(void *data, Dtype dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {})
      : data_(data), dtype_(dtype.code), shape_(std::move(shape)), strides_(std::move(strides)) {
    if (!strides_.empty() && strides_.size() != shape_.size())
      throw Error(XTARGET_BAD_ARGUMENT, "a tensor has as many strides as dimensions, or none");
  }

  template <class T>
  Tensor(T *data, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {})
      : Tensor(const_cast<std::remove_cv_t<T> *>(data), dtype_of<T>(), std::move(shape), std::move(strides)) {}

  xtarget_tensor raw() const noexcept {
    xtarget_tensor made{};
    made.data = data_;
    made.dtype = dtype_;
    made.ndim = static_cast<std::int32_t>(shape_.size());
    made.shape = shape_.data();
    made.strides = strides_.empty() ? nullptr : strides_.data();
    return made;
  }

 private:
  void *data_;
  std::int32_t dtype_;
  std::vector<std::int64_t> shape_, strides_;
};

/* An argument: a tensor, a number, or nothing. What it was made from has to live until the call. */
class Argument {
 public:
  Argument(std::nullopt_t) noexcept : raw_{} { raw_.kind = XTARGET_ABSENT; }
  Argument(const Tensor &tensor) noexcept : Argument(tensor.raw()) {}
  Argument(const xtarget_tensor &tensor) noexcept : raw_{} {
    raw_.kind = XTARGET_TENSOR;
    raw_.tensor = tensor;
  }
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Argument(T value) : raw_{} {
    if constexpr (std::is_floating_point_v<T>) {
      raw_.kind = XTARGET_REAL;
      raw_.real = static_cast<double>(value);
    } else {
      raw_.kind = XTARGET_INTEGER;
      if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(std::int64_t))
        if (value > static_cast<T>(INT64_MAX)) raw_.kind = XTARGET_UNSIGNED;
      raw_.integer = static_cast<std::int64_t>(value);
    }
  }
  /* A DLTensor of any dlpack.h. */
  template <class T, std::enable_if_t<std::is_class_v<T>, int> = 0,
            class = decltype(std::declval<T>().byte_offset)>
  Argument(const T *dltensor) : raw_{} {
    raw_.kind = XTARGET_TENSOR;
    check(xtarget_from_dlpack(dltensor, &raw_.tensor));
  }

  const xtarget_argument &raw() const noexcept { return raw_; }

 private:
  xtarget_argument raw_;
};

/* An option of a kernel: {"axis", 1}, {"approximate", "tanh"}, {"keepdims", true}. */
class Option {
 public:
  Option(std::string name, std::string value) : name_(std::move(name)), value_(std::move(value)) {}
  Option(std::string name, const char *value) : Option(std::move(name), std::string(value)) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Option(std::string name, T value) : name_(std::move(name)) {
    if constexpr (std::is_same_v<T, bool>) {
      value_ = value ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      std::array<char, 40> text{};
      std::snprintf(text.data(), text.size(), "%.17g", static_cast<double>(value));
      value_ = text.data();
    } else {
      value_ = std::to_string(value);
    }
  }
  xtarget_option raw() const noexcept { return {name_.c_str(), value_.c_str()}; }

 private:
  std::string name_, value_;
};

/* Copies refer to the same device; it is closed with the last of them and of its kernels. */
class Device {
 public:
  explicit Device(Driver driver, int ordinal = 0) {
    xtarget_device *made = nullptr;
    check(xtarget_device_open(driver, ordinal, &made));
    raw_.reset(made, xtarget_device_close);
  }
  /* In the caller's context: a CUcontext; a cl_context and its cl_device_id. */
  Device(Driver driver, void *context, void *native = nullptr) {
    xtarget_device *made = nullptr;
    check(xtarget_device_in(driver, context, native, &made));
    raw_.reset(made, xtarget_device_close);
  }
  std::string target() const { return xtarget_device_target(raw()); }
  std::string name() const { return xtarget_device_name(raw()); }
  void *stream() const {
    void *made = nullptr;
    check(xtarget_device_stream(raw(), &made));
    return made;
  }
  void synchronize(void *stream) const { check(xtarget_device_synchronize(raw(), stream)); }
  xtarget_device *raw() const noexcept { return raw_.get(); }

 private:
  std::shared_ptr<xtarget_device> raw_;
};

/* The first GPU of CUDA or HIP, else OpenCL's first device; opened once for the program. */
inline const Device &default_device() {
  static const Device device = [] {
    for (Driver driver : {cuda, hip}) try {
        return Device(driver);
      } catch (const Error &error) {
        if (error.status() != XTARGET_NO_DRIVER) throw;
      }
    return Device(opencl);
  }();
  return device;
}

/* Memory of a device, freed with its last copy. */
class Memory {
 public:
  Memory(const Device &device, std::size_t size) : device_(device), size_(size) {
    void *made = nullptr;
    check(xtarget_device_allocate(device.raw(), size, &made));
    raw_.reset(made, [device](void *memory) { xtarget_device_free(device.raw(), memory); });
  }
  void *data() const noexcept { return raw_.get(); }
  std::size_t size() const noexcept { return size_; }
  void write(const void *from) const { check(xtarget_device_copy(device_.raw(), data(), from, size_, 1)); }
  void read(void *to) const { check(xtarget_device_copy(device_.raw(), to, data(), size_, 0)); }

 private:
  Device device_;
  std::size_t size_;
  std::shared_ptr<void> raw_;
};

/* A new array of a device, in C order. Its memory is freed with its last copy: wait for the work that uses
 * it before. */
class Array {
 public:
  Array(const Device &device, Dtype dtype, std::vector<std::int64_t> shape)
      : memory_(device, bytes(dtype, shape)), dtype_(dtype), shape_(shape),
        tensor_(memory_.data(), dtype, std::move(shape)) {}
  operator const Tensor &() const noexcept { return tensor_; }
  Dtype dtype() const noexcept { return dtype_; }
  const std::vector<std::int64_t> &shape() const noexcept { return shape_; }
  void *data() const noexcept { return memory_.data(); }
  std::size_t size() const noexcept { return memory_.size(); }
  /* Copy and wait: all of it. */
  void write(const void *from) const { memory_.write(from); }
  void read(void *to) const { memory_.read(to); }

 private:
  static std::size_t bytes(Dtype dtype, const std::vector<std::int64_t> &shape) {
    constexpr std::size_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
    if (dtype.code < 0 || dtype.code >= XTARGET_DTYPE_COUNT) throw Error(XTARGET_BAD_ARGUMENT, "there is no such dtype");
    std::size_t made = sizes[dtype.code];
    for (std::int64_t length : shape) {
      if (length < 0 || (length && made > static_cast<std::size_t>(INT64_MAX) / static_cast<std::size_t>(length)))
        throw Error(XTARGET_BAD_ARGUMENT, "a length of an array is below 0, or the array is too large");
      made *= static_cast<std::size_t>(length);
    }
    return made;
  }
  Memory memory_;
  Dtype dtype_;
  std::vector<std::int64_t> shape_;
  Tensor tensor_;
};

/* An argument of a launch with a grid of the caller's: what Argument takes, an address, or the text
 * of a constexpr ("fp32", "\"tanh\""). */
class Value {
 public:
  template <class T, std::enable_if_t<std::is_constructible_v<Argument, T &&>, int> = 0>
  Value(T &&value) : raw_(Argument(std::forward<T>(value)).raw()) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<std::remove_cv_t<T>, char>, int> = 0>
  Value(T *data) noexcept : raw_{} {
    raw_.kind = XTARGET_TENSOR;
    raw_.tensor.data = const_cast<std::remove_cv_t<T> *>(data);
    raw_.tensor.dtype = dtype_of<T>().code;
  }
  Value(const char *constant) noexcept : raw_{} {
    raw_.kind = XTARGET_TEXT;
    raw_.tensor.data = const_cast<char *>(constant);
  }
  const xtarget_argument &raw() const noexcept { return raw_; }

 private:
  xtarget_argument raw_;
};

/* Blocks in x, y and z. */
using Grid = std::array<std::uint32_t, 3>;

/* A binary of a Triton function that a kernel launches. */
class Function {
 public:
  Function(xtarget_function *raw, std::shared_ptr<xtarget_kernel> kernel)
      : kernel_(std::move(kernel)), raw_(raw, xtarget_function_release) {}
  xtarget_function_facts about() const {
    xtarget_function_facts facts{};
    check(xtarget_function_about(raw(), &facts));
    return facts;
  }
  std::string signature() const { return about().signature; }
  /* Its static signature; the texts live as long as the function. */
  std::vector<xtarget_parameter> parameters() const {
    std::vector<xtarget_parameter> found(about().parameter_count);
    for (std::size_t i = 0; i < found.size(); i++) check(xtarget_function_parameter(raw(), i, &found[i]));
    return found;
  }
  /* Launch: all parameters but constexprs. Does not wait. */
  template <class... Values>
  void operator()(void *stream, const Grid &grid, Values &&...values) const {
    const xtarget_argument given[sizeof...(values) + 1] = {Value(std::forward<Values>(values)).raw()...};
    check(xtarget_function_call(raw(), stream, grid.data(), given, sizeof...(values)));
  }
  /* The same by the address of each value, as for cuLaunchKernel. */
  void launch(void *stream, const Grid &grid, void *const *arguments, std::size_t count) const {
    check(xtarget_function_launch(raw(), stream, grid.data(), arguments, count));
  }
  xtarget_function *raw() const noexcept { return raw_.get(); }

 private:
  std::shared_ptr<xtarget_kernel> kernel_; /* is released after it */
  std::shared_ptr<xtarget_function> raw_;
};

/* Launches the function of a kernel that fits what is given:
 * `launch(stream, x, y, z, num_warps, num_stages, arguments..., constexprs...)`. */
class Launcher {
 public:
  explicit Launcher(std::shared_ptr<xtarget_kernel> kernel) : kernel_(std::move(kernel)) {}
  template <class... Values>
  void operator()(void *stream, std::uint32_t x, std::uint32_t y, std::uint32_t z, int num_warps,
                  int num_stages, Values &&...values) const {
    const Grid grid{x, y, z};
    const xtarget_argument given[sizeof...(values) + 1] = {Value(std::forward<Values>(values)).raw()...};
    check(xtarget_kernel_launch(kernel_.get(), stream, grid.data(), num_warps, num_stages, given,
                                sizeof...(values)));
  }

 private:
  std::shared_ptr<xtarget_kernel> kernel_;
};

class Kernel {
 public:
  explicit Kernel(xtarget_kernel *raw) : raw_(raw, xtarget_kernel_release) {}

  /* Launch: arguments, then one output. Does not wait. */
  template <class... Arguments>
  void operator()(void *stream, Arguments &&...arguments) const {
    check(try_call(stream, std::forward<Arguments>(arguments)...));
  }
  /* The same, with the status instead of an exception, also for what is no argument of a kernel. */
  template <class... Arguments>
  int try_call(void *stream, Arguments &&...arguments) const {
    static_assert(sizeof...(arguments) >= 1, "give arguments, then the output");
    constexpr std::size_t count = sizeof...(arguments) - 1;
    try {
      const xtarget_argument given[count + 1] = {Argument(std::forward<Arguments>(arguments)).raw()...};
      if (given[count].kind != XTARGET_TENSOR)
        return xtarget_kernel_call(raw_.get(), stream, given, count, nullptr, 1);
      return xtarget_kernel_call(raw_.get(), stream, given, count, &given[count].tensor, 1);
    } catch (const Error &error) {
      return error.status();
    }
  }
  /* Launch with a new array for the result, zeros where the kernel writes nothing, as in Python. Does not
   * wait; an array of the caller's saves the time for memory and zeros. */
  template <class... Arguments>
  Array run(const Device &device, void *stream, Arguments &&...arguments) const {
    constexpr std::size_t count = sizeof...(arguments);
    constexpr Dtype dtypes[] = {b8, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2};
    const xtarget_argument given[count + 1] = {Argument(std::forward<Arguments>(arguments)).raw()...};
    xtarget_tensor told{};
    std::int64_t shape[1][16];
    std::size_t outputs = 0;
    check(xtarget_kernel_outputs(raw(), given, count, &told, shape, 1, &outputs));
    if (outputs != 1) throw Error(XTARGET_BAD_ARGUMENT, "the kernel has not one result: call it with arrays for them");
    Array made(device, dtypes[told.dtype], {shape[0], shape[0] + told.ndim});
    const xtarget_tensor out = static_cast<const Tensor &>(made).raw();
    check(xtarget_device_clear(device.raw(), stream, made.data(), made.size()));
    check(xtarget_kernel_call(raw(), stream, given, count, &out, 1));
    return made;
  }
  /* Any number of outputs, also none. */
  void call(void *stream, std::initializer_list<Argument> arguments,
            std::initializer_list<Argument> outputs) const {
    std::vector<xtarget_argument> given;
    std::vector<xtarget_tensor> out;
    for (const auto &one : arguments) given.push_back(one.raw());
    for (const auto &one : outputs) {
      if (one.raw().kind != XTARGET_TENSOR) throw Error(XTARGET_BAD_ARGUMENT, "an output is a tensor");
      out.push_back(one.raw().tensor);
    }
    check(xtarget_kernel_call(raw_.get(), stream, given.data(), given.size(), out.data(), out.size()));
  }
  /* The shapes of a call's results. */
  std::vector<std::vector<std::int64_t>> shapes(std::initializer_list<Argument> arguments) const {
    std::vector<xtarget_argument> given;
    for (const auto &one : arguments) given.push_back(one.raw());
    std::array<xtarget_tensor, 64> told{};
    std::vector<std::int64_t> room(64 * 16);
    std::size_t count = 0;
    check(xtarget_kernel_outputs(raw_.get(), given.data(), given.size(), told.data(),
                                 reinterpret_cast<std::int64_t (*)[16]>(room.data()), told.size(), &count));
    std::vector<std::vector<std::int64_t>> made;
    for (std::size_t i = 0; i < count; i++)
      made.emplace_back(told[i].shape, told[i].shape + told[i].ndim);
    return made;
  }
  /* The binaries of Triton functions that it launches, for grids of the caller's. */
  std::vector<Function> functions() const {
    std::vector<Function> found;
    for (std::size_t i = 0; i < xtarget_kernel_function_count(raw()); i++) {
      xtarget_function *made = nullptr;
      check(xtarget_kernel_function(raw(), i, &made));
      found.emplace_back(made, raw_);
    }
    return found;
  }
  /* That of a signature, "*fp32:16,*fp32,i32,1024"; of warps and stages 0 is any. */
  Function function(const std::string &signature, int num_warps = 0, int num_stages = 0) const {
    xtarget_function *made = nullptr;
    check(xtarget_kernel_function_of(raw(), signature.c_str(), num_warps, num_stages, &made));
    return Function(made, raw_);
  }
  Launcher launcher() const { return Launcher(raw_); }
  xtarget_kernel *raw() const noexcept { return raw_.get(); }

 private:
  std::shared_ptr<xtarget_kernel> raw_;
};

/* An open bundle. Its kernels may live longer. */
class Bundle {
 public:
  /* `trust`: a file of public keys; nullptr: XTARGET_TRUST; "": signatures are not checked. */
  explicit Bundle(const std::string &path, const char *trust = nullptr) {
    xtarget_bundle *made = nullptr;
    check(xtarget_bundle_open(path.c_str(), trust, &made));
    raw_.reset(made, xtarget_bundle_close);
  }
  /* Built of a kernel library's folder or of FILE.py by a child process (xtarget_library_open). `kernels`: "one,other";
   * "": all of the library. */
  static Bundle of_library(const Device &device, const std::string &library, const std::string &kernels = "",
                           const std::string &dtypes = "float32", double seconds = 600) {
    xtarget_bundle *made = nullptr;
    check(xtarget_library_open(library.c_str(), device.raw(), kernels.empty() ? nullptr : kernels.c_str(),
                               dtypes.c_str(), seconds, &made));
    return Bundle(made);
  }
  std::vector<std::string> targets() const {
    std::vector<std::string> found;
    for (std::size_t i = 0; i < xtarget_bundle_target_count(raw()); i++)
      found.emplace_back(xtarget_bundle_target(raw(), i));
    return found;
  }
  /* Name and dtype of all kernels for a target. */
  std::vector<std::pair<std::string, std::string>> kernels(const std::string &target) const {
    std::vector<std::pair<std::string, std::string>> found;
    auto each = [](void *data, const char *kernel, const char *dtype) {
      try {
        static_cast<decltype(found) *>(data)->emplace_back(kernel, dtype);
      } catch (const std::bad_alloc &) {
        return static_cast<int>(XTARGET_OUT_OF_MEMORY);
      }
      return static_cast<int>(XTARGET_OK);
    };
    check(xtarget_bundle_kernels(raw(), target.c_str(), each, &found));
    return found;
  }
  Kernel kernel(const Device &device, const std::string &name, Dtype dtype,
                std::initializer_list<Option> options = {}) const {
    std::vector<xtarget_option> given;
    for (const auto &one : options) given.push_back(one.raw());
    xtarget_kernel *made = nullptr;
    check(xtarget_kernel_get(raw(), device.raw(), name.c_str(), dtype.name, given.data(), given.size(), &made));
    return Kernel(made);
  }
  /* For the default device. */
  Kernel kernel(const std::string &name, Dtype dtype, std::initializer_list<Option> options = {}) const {
    return kernel(default_device(), name, dtype, options);
  }
  /* Have `xtarget serve` make the calls that the bundle lacks, for kernels that are taken after this.
   * `server`: "unix:/PATH"; nullptr: XTARGET_COMPILE_SERVER. */
  void compile_by(const char *server = nullptr, double seconds = 300) const {
    check(xtarget_bundle_compile_by(raw(), server, seconds));
  }
  void verify() const { check(xtarget_bundle_verify(raw())); }
  xtarget_bundle *raw() const noexcept { return raw_.get(); }

 private:
  explicit Bundle(xtarget_bundle *raw) : raw_(raw, xtarget_bundle_close) {}
  std::shared_ptr<xtarget_bundle> raw_;
};

/* A kernel by its library's folder, or its file, and its name, compiled by a child process where the cache lacks it. */
inline Kernel kernel_of(const Device &device, const std::string &library, const std::string &name, Dtype dtype,
                        std::initializer_list<Option> options = {}) {
  return Bundle::of_library(device, library, name, dtype.name).kernel(device, name, dtype, options);
}

}  // namespace xt

#endif
