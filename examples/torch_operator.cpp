// An operator of torch in C++: `torch.ops.rows.softmax(x)` by a kernel of a bundle, on CUDA and the
// CPU, for Python and TorchScript alike. torch_operator.py builds it and calls it.
#include <torch/library.h>
#include <torch/types.h>
#include <xtarget.hpp>

#include <cstdlib>
#include <map>

#ifdef WITH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace {

xt::Dtype dtype_of(const at::Tensor &x) {
  switch (x.scalar_type()) {
    case at::kFloat: return xt::f32;
    case at::kHalf: return xt::f16;
    case at::kBFloat16: return xt::bf16;
    default: TORCH_CHECK(false, "rows::softmax takes float32, float16 and bfloat16");
  }
}

xt::Tensor view(const at::Tensor &x) {
  return {x.data_ptr(), dtype_of(x), x.sizes().vec(), x.strides().vec()};
}

at::Tensor launch(const xt::Device &device, int place, void *stream, const at::Tensor &x) {
  static const xt::Bundle bundle{std::getenv("ROWS_BUNDLE")};
  thread_local std::map<std::pair<int, at::ScalarType>, xt::Kernel> kernels;
  auto found = kernels.find({place, x.scalar_type()});
  if (found == kernels.end())
    found = kernels.emplace(std::pair{place, x.scalar_type()},
                            bundle.kernel(device, "softmax", dtype_of(x))).first;
  at::Tensor out = at::empty_like(x);
  found->second(stream, view(x), view(out));
  return out;
}

at::Tensor on_cpu(const at::Tensor &x) {
  static const xt::Device device{xt::opencl};
  thread_local void *const queue = device.stream();
  at::Tensor out = launch(device, -1, queue, x);
  return device.synchronize(queue), out;
}
#ifdef WITH_CUDA
at::Tensor on_cuda(const at::Tensor &x) {
  const c10::cuda::CUDAGuard guard{x.device()};
  static const xt::Device device{xt::cuda, x.get_device()};  // of one GPU
  return launch(device, x.get_device(), c10::cuda::getCurrentCUDAStream(), x);
}
TORCH_LIBRARY_IMPL(rows, CUDA, m) { m.impl("softmax", on_cuda); }
#endif
}  // namespace

TORCH_LIBRARY(rows, m) { m.def("softmax(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(rows, CPU, m) { m.impl("softmax", on_cpu); }
