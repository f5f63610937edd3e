// SPDX-License-Identifier: Apache-2.0
#include "transfer/codec_pool.h"

#include <pthread.h>

#include <system_error>

namespace cinch::transfer {

Status CodecPool::Start(uint32_t threads, const SegmentCodecFactory& factory) {
  for (uint32_t i = 0; i < threads; ++i) {
    auto state = std::make_unique<CodecThread>();
    CINCH_RETURN_IF_ERROR(factory(state->codec));
    states_.push_back(std::move(state));
  }
  try {
    for (auto& state : states_) {
      threads_.emplace_back([this, thread = state.get()] { Work(*thread); });
      ::pthread_setname_np(threads_.back().native_handle(), "cinch-codec");
    }
  } catch (const std::system_error&) {
    // Fewer threads than asked for still do the work.
    if (threads_.empty()) return CINCH_ERROR_OUT_OF_MEMORY;
  }
  return CINCH_OK;
}

void CodecPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void CodecPool::Submit(std::unique_ptr<CodecJob> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  submitted_.notify_one();
}

void CodecPool::Work(CodecThread& thread) {
  while (true) {
    std::unique_ptr<CodecJob> job;
    {
      std::unique_lock lock(mutex_);
      submitted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job->Run(thread);
  }
}

}  // namespace cinch::transfer
