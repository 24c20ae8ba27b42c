// What a call from C++ costs, and threads that call at once: see bench_cpp.py.
//
//   bench_cpp BUNDLE DRIVER [CUBIN ENTRY THREADS PARAMETERS]
//     DRIVER: cuda, cuda-own (in a context that this program makes), or opencl
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include <xtarget.hpp>

namespace {

constexpr int N = 4096, CALLS = 400, ROUNDS = 60;

struct DLDevice { std::int32_t device_type, device_id; };
struct DLDataType { std::uint8_t code, bits; std::uint16_t lanes; };
struct DLTensor {
  void *data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};

// The least time of a call, in microseconds; what it started is waited for between the rounds.
double measured(const std::function<void()> &call, const std::function<void()> &wait) {
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < CALLS; i++) call();
    std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / CALLS);
    wait();
  }
  return best;
}

// The calls in turns, so that a clock that changes is the same for all: least and median times, and the
// median of each turn's ratio to the first.
void in_turns(const std::vector<std::pair<const char *, std::function<void()>>> &rows, const std::function<void()> &wait) {
  std::vector<std::vector<double>> times(rows.size()), ratios(rows.size());
  auto middle = [](std::vector<double> of) {
    std::nth_element(of.begin(), of.begin() + of.size() / 2, of.end());
    return of[of.size() / 2];
  };
  for (int turn = 0; turn < 5 * ROUNDS; turn++)
    for (std::size_t row = 0; row < rows.size(); row++) {
      auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < CALLS; i++) rows[row].second();
      std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
      times[row].push_back(spent.count() / CALLS);
      ratios[row].push_back(times[row].back() / times[0].back());
      wait();
    }
  for (std::size_t row = 0; row < rows.size(); row++)
    std::printf("  %-22s  least %.2f, median %.2f us  %.2f x\n", rows[row].first,
                *std::min_element(times[row].begin(), times[row].end()), middle(times[row]), middle(ratios[row]));
}

template <class F>
F symbol(void *library, const char *name) {
  auto found = reinterpret_cast<F>(dlsym(library, name));
  if (!found) throw std::runtime_error(name);
  return found;
}

void *opened(const char *name) {
  void *library = dlopen(name, RTLD_NOW);
  if (!library) throw std::runtime_error(dlerror());
  return library;
}

void succeeds(int code, const char *what) {
  if (code) throw std::runtime_error(std::string(what) + " gives " + std::to_string(code));
}

// What the driver has for contexts.
struct Contexts {
  void *cuda = opened("libcuda.so.1");
  int (*push)(void *) = symbol<int (*)(void *)>(cuda, "cuCtxPushCurrent_v2");
  int (*pop)(void **) = symbol<int (*)(void **)>(cuda, "cuCtxPopCurrent_v2");

  void *primary() const {
    void *context = nullptr;
    succeeds(symbol<int (*)(unsigned)>(cuda, "cuInit")(0), "cuInit");
    succeeds(symbol<int (*)(void **, int)>(cuda, "cuDevicePrimaryCtxRetain")(&context, 0), "cuDevicePrimaryCtxRetain");
    return context;
  }
  // One of the program's own, which is no thread's current one.
  void *made() const {
    void *context = nullptr;
    succeeds(symbol<int (*)(unsigned)>(cuda, "cuInit")(0), "cuInit");
    succeeds(symbol<int (*)(void **, unsigned, int)>(cuda, "cuCtxCreate_v2")(&context, 0, 0), "cuCtxCreate");
    void *popped = nullptr;
    succeeds(pop(&popped), "cuCtxPopCurrent");
    return context;
  }
};

// cuLaunchKernel of the same binary: what the driver alone takes. The context is current meanwhile.
class Bare {
 public:
  Bare(const Contexts &driver, char **words, void *x, void *y)
      : x_(x), y_(y), threads_(std::atoi(words[2])), count_(std::atoi(words[3])) {
    std::ifstream file(words[0], std::ios::binary);
    std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
    void *module = nullptr;
    succeeds(symbol<int (*)(void **, const void *)>(driver.cuda, "cuModuleLoadData")(&module, image.data()), "loading");
    succeeds(symbol<int (*)(void **, void *, const char *)>(driver.cuda, "cuModuleGetFunction")(&function_, module, words[1]),
             words[1]);
    launch_ = symbol<Launch>(driver.cuda, "cuLaunchKernel");
  }
  void operator()(void *stream) {
    void *values[16] = {&x_, &y_, &n_};
    for (int i = 3; i < count_; i++) values[i] = &null_;
    succeeds(launch_(function_, N / 1024, 1, 1, threads_, 1, 1, 0, stream, values, nullptr), "cuLaunchKernel");
  }

 private:
  using Launch = int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                         void **, void **);
  Launch launch_;
  void *function_ = nullptr, *x_, *y_, *null_ = nullptr;
  int n_ = N, threads_, count_;
};

// Opening the bundle: of its path, of a mapping, with all of it read and compared.
void openings(const char *path) {
  std::printf("open and close            %7.2f us\n", measured([&] { xt::Bundle{path}; }, [] {}));
  auto opened_in = [](const void *bytes, std::size_t size) {
    xtarget_bundle *bundle = nullptr;
    xt::check(xtarget_bundle_open_memory(bytes, size, nullptr, &bundle));
    xtarget_bundle_close(bundle);
  };
  auto mapped = [&] {
    int file = open(path, O_RDONLY);
    struct stat about {};
    if (file < 0 || fstat(file, &about)) throw std::runtime_error(path);
    void *bytes = mmap(nullptr, about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (bytes == MAP_FAILED) throw std::runtime_error(path);
    opened_in(bytes, about.st_size);
    munmap(bytes, about.st_size);
  };
  std::printf("map, open, close, unmap   %7.2f us\n", measured(mapped, [] {}));
  auto start = std::chrono::steady_clock::now();
  xt::Bundle{path}.verify();
  std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  std::printf("open and verify all of it %7.2f ms\n", spent.count());
}

// Every thread calls kernels of all of them on arrays of its own. Gives how many elements are wrong.
long threads_at_once(const xt::Device &device, const xt::Bundle &bundle, int count) {
  auto relu = bundle.kernel(device, "relu", xt::f32);
  auto softmax = bundle.kernel(device, "softmax", xt::f32);
  std::vector<long> wrong(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; t++)
    threads.emplace_back([&, t] {
      void *stream = device.stream();
      auto own = bundle.kernel(device, "add", xt::f32);
      for (int round = 0; round < 20; round++) {
        std::int64_t rows = 3 + (t + round) % 5, columns = 1000, n = rows * columns;
        xt::Memory x{device, n * sizeof(float)}, y{device, n * sizeof(float)}, z{device, n * sizeof(float)};
        std::vector<float> host(n), sums(n);
        for (std::int64_t i = 0; i < n; i++) host[i] = static_cast<float>((i * 37 + t) % 101 - 50) / 20;
        x.write(host.data());
        xt::Tensor a{x.data(), xt::f32, {rows, columns}}, b{y.data(), xt::f32, {rows, columns}},
            c{z.data(), xt::f32, {rows, columns}};
        relu(stream, a, b);
        own(stream, b, 0.5, c);
        softmax(stream, a, b);
        device.synchronize(stream);
        z.read(sums.data());
        for (std::int64_t i = 0; i < n; i++) wrong[t] += sums[i] != (host[i] > 0 ? host[i] : 0) + 0.5f;
        y.read(sums.data());
        for (std::int64_t row = 0; row < rows; row++) {
          double total = 0;
          for (int i = 0; i < columns; i++) total += std::exp(host[row * columns + i]);
          for (int i = 0; i < columns; i++)
            wrong[t] += !(std::fabs(sums[row * columns + i] - std::exp(host[row * columns + i]) / total) < 1e-6);
        }
      }
    });
  for (auto &thread : threads) thread.join();
  long total = 0;
  for (long one : wrong) total += one;
  return total;
}

}  // namespace

int main(int count, char **words) try {
  if (count != 3 && count != 7) return 2;
  const std::string driver = words[2];
  const bool cuda = driver != "opencl";
  openings(words[1]);
  void *context = driver == "cuda-own" ? Contexts().made() : driver == "cuda" ? Contexts().primary() : nullptr;
  xt::Device device = driver == "cuda-own" ? xt::Device{xt::cuda, context} : xt::Device{cuda ? xt::cuda : xt::opencl};
  xt::Bundle bundle{words[1]};
  auto relu = bundle.kernel(device, "relu", xt::f32);
  void *stream = device.stream();
  xt::Memory x{device, N * sizeof(float)}, y{device, N * sizeof(float)};
  auto wait = [&] { device.synchronize(stream); };
  std::printf("%s (%s)\n", device.name().c_str(), device.target().c_str());
  std::int64_t shape[] = {N};
  DLTensor in{x.data(), {cuda ? 2 : 1, 0}, 1, {2, 32, 1}, shape, nullptr, 0}, out = in;
  out.data = y.data();
  xt::Tensor a{x.data(), xt::f32, {N}}, b{y.data(), xt::f32, {N}};
  auto tensors = [&] { relu(stream, a, b); };
  auto fresh = [&] { relu(stream, xt::Tensor{x.data(), xt::f32, {N}}, xt::Tensor{y.data(), xt::f32, {N}}); };
  auto dlpack = [&] { relu(stream, &in, &out); };
  using Row = std::pair<const char *, std::function<void()>>;
  std::vector<Row> rows{{"relu(xt::Tensor)", tensors}, {"the same, made anew", fresh}, {"relu(DLTensor *)", dlpack}};
  if (count != 7) {
    in_turns(rows, wait);
  } else {
    Contexts contexts;
    void *popped = nullptr;
    succeeds(contexts.push(context), "cuCtxPushCurrent");
    Bare bare(contexts, words + 3, x.data(), y.data());
    std::printf("the context is the thread's\n");
    rows.insert(rows.begin(), {"cuLaunchKernel alone", [&] { bare(stream); }});
    in_turns(rows, wait);
    succeeds(contexts.pop(&popped), "cuCtxPopCurrent");
    std::printf("the thread has none: the first pushes and pops it\n");
    rows[0] = {"push, launch, pop", [&] {
                 contexts.push(context);
                 bare(stream);
                 contexts.pop(&popped);
               }};
    in_turns(rows, wait);
  }
  long wrong = threads_at_once(device, bundle, 4);
  std::printf("4 threads: %ld elements wrong\n", wrong);
  return wrong != 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
