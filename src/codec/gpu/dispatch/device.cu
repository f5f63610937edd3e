// SPDX-License-Identifier: Apache-2.0
#include "codec/gpu/dispatch/device.cuh"

#include <array>
#include <mutex>

#include "codec/gpu/dispatch/kernels.cuh"

namespace cinch::codec::gpu {
namespace {

constexpr int kMaxDevices = 64;

struct PreparedDevice {
  bool done = false;
  DeviceCapacity capacity = {};
};

cudaError_t Prepare(int device, DeviceCapacity* capacity) {
  int multiprocessors = 0;
  int encode_ctas = 0;
  int decode_ctas = 0;
  cudaError_t error =
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = PreparePlanning();
  if (error == cudaSuccess) error = PrepareContentHash();
  if (error == cudaSuccess) error = PrepareEncode(&encode_ctas);
  if (error == cudaSuccess) error = PrepareDecode(&decode_ctas);
  if (error != cudaSuccess) return error;
  if (encode_ctas == 0 || decode_ctas == 0) return cudaErrorInvalidConfiguration;
  capacity->encode_ctas = static_cast<uint32_t>(multiprocessors * encode_ctas);
  capacity->decode_ctas = static_cast<uint32_t>(multiprocessors * decode_ctas);
  return cudaSuccess;
}

/// The device of a stream; of the special streams, which belong to whatever device is current, and
/// of a stream that is being captured, that device: `*device` stays as it is.
cudaError_t DeviceOf(cudaStream_t stream, int* device) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    return cudaSuccess;
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream, &capture);
  if (error != cudaSuccess) return error;
  if (capture != cudaStreamCaptureStatusNone) return cudaSuccess;
  return cudaStreamGetDevice(stream, device);
}

}  // namespace

Status StatusOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return CINCH_OK;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidConfiguration:
      cudaGetLastError();
      return CINCH_ERROR_NO_DEVICE;
    default:
      cudaGetLastError();
      return CINCH_ERROR_DEVICE;
  }
}

StreamDevice::StreamDevice(cudaStream_t stream) {
  status_ = StatusOf(cudaGetDevice(&previous_));
  if (status_ != CINCH_OK) return;
  device_ = previous_;
  status_ = StatusOf(DeviceOf(stream, &device_));
  if (status_ != CINCH_OK || device_ == previous_) return;
  status_ = StatusOf(cudaSetDevice(device_));
  switched_ = status_ == CINCH_OK;
}

StreamDevice::~StreamDevice() {
  if (switched_) cudaSetDevice(previous_);
}

Status PrepareDevice(int device, DeviceCapacity* capacity) {
  static std::mutex mutex;
  static std::array<PreparedDevice, kMaxDevices> devices;
  if (device < 0 || device >= kMaxDevices) return CINCH_ERROR_UNSUPPORTED;
  const std::lock_guard lock(mutex);
  PreparedDevice& prepared = devices[static_cast<size_t>(device)];
  if (!prepared.done) {
    const Status status = StatusOf(Prepare(device, &prepared.capacity));
    if (status != CINCH_OK) return status;
    prepared.done = true;
  }
  *capacity = prepared.capacity;
  return CINCH_OK;
}

}  // namespace cinch::codec::gpu
