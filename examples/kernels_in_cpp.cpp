// A program without Python or Triton: it calls kernels of a bundle on this machine's CPU (OpenCL), or
// with the argument `cuda` on a GPU. kernels_in_cpp.py builds the bundle and this program.
#include <xtarget.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

int main(int count, char **words) try {
  if (count < 2) return std::puts("usage: kernels_in_cpp BUNDLE [cuda|hip|opencl]"), 2;
  const std::string driver = count > 2 ? words[2] : "opencl";
  xt::Device device{driver == "cuda" ? xt::cuda : driver == "hip" ? xt::hip : xt::opencl};
  xt::Bundle bundle{words[1]};
  auto softmax = bundle.kernel(device, "softmax", xt::f32);
  auto add = bundle.kernel(device, "add", xt::f32);

  constexpr std::int64_t m = 8, n = 1000;
  std::vector<float> host(m * n);
  for (std::size_t i = 0; i < host.size(); i++) host[i] = float(i % 97) / 16;
  xt::Memory in{device, host.size() * sizeof(float)}, out{device, in.size()};
  in.write(host.data());

  void *stream = device.stream();
  xt::Tensor x{in.data(), xt::f32, {m, n}}, y{out.data(), xt::f32, {m, n}};
  softmax(stream, x, y);
  add(stream, y, 1.0, y);
  device.synchronize(stream);

  std::vector<float> got(host.size());
  out.read(got.data());
  double worst = 0;
  for (std::int64_t row = 0; row < m; row++) {
    double total = 0;
    for (std::int64_t i = 0; i < n; i++) total += std::exp(double(host[row * n + i]));
    for (std::int64_t i = 0; i < n; i++)
      worst = std::fmax(worst, std::fabs(got[row * n + i] - 1 - std::exp(host[row * n + i]) / total));
  }
  std::printf("softmax + 1 on %s (%s): %s\n", device.name().c_str(), device.target().c_str(),
              worst < 1e-6 ? "right" : "WRONG");
  try {
    softmax(stream, x, xt::Tensor{out.data(), xt::f32, {n, m}});
  } catch (const xt::Error &error) {
    std::printf("refused: %s\n", error.what());
    return worst < 1e-6 ? 0 : 1;
  }
  return 1;
} catch (const xt::Error &error) {
  return std::fprintf(stderr, "%s\n", error.what()), error.status() == XTARGET_NO_DRIVER ? 3 : 1;
}
