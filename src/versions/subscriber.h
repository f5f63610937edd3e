// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/deadline.h"
#include "versions/tensor_memory.h"
#include "versions/version_wire.h"

namespace cinch::versions {

class Subscriber {
 public:
  explicit Subscriber(cinch_endpoint* endpoint) : endpoint_(endpoint) {}
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;
  ~Subscriber();

  [[nodiscard]] Status Subscribe(const std::string& name, void* first, void* second, uint64_t bytes,
                                 cinch_dtype dtype);
  [[nodiscard]] Status Fetch(const std::string& name, uint64_t wanted, void* stream,
                             Deadline deadline, cinch_version& fetched);

 private:
  struct Tensor {
    void* buffers[2] = {};
    int current = 0;  // Which of them has the version.
    uint64_t bytes = 0;
    cinch_dtype dtype = CINCH_DTYPE_AUTO;
    bool has_version = false;
    bool wants_full = false;  // What came last was wrong.
    uint64_t version = 0;
    uint64_t content_hash = 0;
    std::unique_ptr<TensorMemory> memory;
    Buffer patch;
    cinch_operation* asked = nullptr;  // The receive of an answer that is still to come,
    VersionRequest request;            // to this request.
    VersionAnswer answer;
  };

  [[nodiscard]] Status Ask(const std::string& name, Tensor& tensor, uint64_t wanted);
  [[nodiscard]] Status Take(Tensor& tensor, void* stream, cinch_version& fetched);
  [[nodiscard]] Status TakeFull(Tensor& tensor, cinch_version& fetched);
  [[nodiscard]] Status TakePatches(Tensor& tensor, cinch_version& fetched);
  [[nodiscard]] Status ReceivePayload(Tensor& tensor, void* to, uint64_t bytes, cinch_dtype dtype,
                                      uint64_t& wire_bytes);
  static void Describe(const Tensor& tensor, cinch_version& fetched);

  cinch_endpoint* const endpoint_;
  std::mutex mutex_;
  uint64_t next_number_ = 1;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace cinch::versions
