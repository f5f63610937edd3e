// SPDX-License-Identifier: Apache-2.0
// Versions of tensors from one publisher to several subscribers.
#include "cinch/versions.h"

#include <atomic>
#include <random>
#include <thread>

#include "cinch/patch.h"
#include "transfer/engine_pair.h"
#include "transfer/pattern.h"
#include "versions/version_wire.h"

namespace cinch::transfer_test {
namespace {

constexpr size_t kBytes = (size_t{3} << 20) + 6;
constexpr const char* kName = "model";

std::vector<uint8_t> Step(std::vector<uint8_t> data, double fraction, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> chance(0, 1);
  for (size_t i = 0; i + 1 < data.size(); i += 2) {
    if (chance(random) < fraction) data[i] = static_cast<uint8_t>(data[i] + 1 + random() % 100);
  }
  return data;
}

uint64_t HashOf(const std::vector<uint8_t>& data) {
  uint64_t hash = 0;
  EXPECT_EQ(cinch_patch_content_hash(data.data(), data.size(), &hash), CINCH_OK);
  return hash;
}

/// A subscriber with its own engine and connection.
struct Subscriber {
  Subscriber(const ListenerHandle& listener, cinch_publisher* its_publisher)
      : publisher(its_publisher), engine(MakeEngine(DefaultOptions())) {
    endpoint = Connect(engine.get(), AddressOf(listener));
    served = Accept(listener);
    EXPECT_EQ(cinch_publisher_serve(publisher, served.get()), CINCH_OK);
    EXPECT_EQ(cinch_subscriber_create(endpoint.get(), &handle), CINCH_OK);
    EXPECT_EQ(cinch_subscribe(handle, kName, buffers[0].data(), buffers[1].data(), kBytes,
                              CINCH_DTYPE_BF16),
              CINCH_OK);
  }
  ~Subscriber() {
    cinch_publisher_forget(publisher, served.get());
    cinch_subscriber_destroy(handle);
  }
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  cinch_status Fetch(uint64_t version, double seconds = kLongSeconds) {
    got.struct_size = sizeof(got);
    return cinch_fetch(handle, kName, version, nullptr, seconds, &got);
  }
  [[nodiscard]] bool Holds(const std::vector<uint8_t>& data) const {
    return got.bytes == data.size() && std::memcmp(got.data, data.data(), data.size()) == 0 &&
           got.content_hash == HashOf(data);
  }

  cinch_publisher* publisher;
  EngineHandle engine;
  EndpointHandle endpoint;
  EndpointHandle served;
  std::vector<uint8_t> buffers[2] = {std::vector<uint8_t>(kBytes), std::vector<uint8_t>(kBytes)};
  cinch_subscriber* handle = nullptr;
  cinch_version got{};
};

class Versions : public testing::Test {
 public:
  Versions() : engine_(MakeEngine(DefaultOptions())) {
    listener = Listen(engine_.get());
    EXPECT_EQ(cinch_publisher_create(&publisher), CINCH_OK);
  }
  ~Versions() override { cinch_publisher_destroy(publisher); }

  void Publish(const std::vector<uint8_t>& data, uint64_t version) const {
    ASSERT_EQ(cinch_publish(publisher, kName, data.data(), data.size(), CINCH_DTYPE_BF16, version,
                            nullptr),
              CINCH_OK);
  }

  EngineHandle engine_;
  ListenerHandle listener;
  cinch_publisher* publisher = nullptr;
};

TEST_F(Versions, FullAtFirstThenPatchesForEverySubscriber) {
  Subscriber first(listener, publisher);
  Subscriber second(listener, publisher);
  std::vector<uint8_t> data = Pattern(1, kBytes);
  Publish(data, 1);
  for (Subscriber* each : {&first, &second}) {
    ASSERT_EQ(each->Fetch(0), CINCH_OK);
    EXPECT_EQ(each->got.source, CINCH_VERSION_FULL);
    EXPECT_TRUE(each->Holds(data));
  }
  for (uint64_t version = 2; version < 6; ++version) {
    data = Step(data, 0.01, version);
    Publish(data, version);
    for (Subscriber* each : {&first, &second}) {
      ASSERT_EQ(each->Fetch(version), CINCH_OK);
      EXPECT_EQ(each->got.source, CINCH_VERSION_PATCH);
      EXPECT_EQ(each->got.version, version);
      EXPECT_LT(each->got.payload_bytes, kBytes * 25 / 1000);
      EXPECT_TRUE(each->Holds(data));
    }
  }
  ASSERT_EQ(first.Fetch(0), CINCH_OK);
  EXPECT_EQ(first.got.source, CINCH_VERSION_HELD);
  ASSERT_EQ(first.Fetch(3), CINCH_OK);  // A newer one is here.
  EXPECT_EQ(first.got.version, 5u);
}

TEST_F(Versions, WhoLagsGetsSeveralPatchesAndTooFarTheWhole) {
  Subscriber subscriber(listener, publisher);
  std::vector<uint8_t> data = Pattern(1, kBytes);
  Publish(data, 1);
  ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
  uint64_t version = 1;
  for (const int lag : {3, CINCH_MAX_PATCH_STEPS, CINCH_MAX_PATCH_STEPS + 1}) {
    for (int i = 0; i < lag; ++i) {
      data = Step(data, 0.005, ++version);
      Publish(data, version);
    }
    ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
    EXPECT_EQ(subscriber.got.source,
              lag > CINCH_MAX_PATCH_STEPS ? CINCH_VERSION_FULL : CINCH_VERSION_PATCH);
    EXPECT_EQ(subscriber.got.version, version);
    EXPECT_TRUE(subscriber.Holds(data));
  }
}

TEST_F(Versions, TooManyChangesComeWhole) {
  Subscriber subscriber(listener, publisher);
  Publish(Pattern(1, kBytes), 1);
  ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
  const std::vector<uint8_t> data = Pattern(2, kBytes);
  Publish(data, 2);
  ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
  EXPECT_EQ(subscriber.got.source, CINCH_VERSION_FULL);
  EXPECT_TRUE(subscriber.Holds(data));
}

TEST_F(Versions, ABaseThatIsNotWhatWasProvedKeepsTheOldVersion) {
  Subscriber subscriber(listener, publisher);
  const std::vector<uint8_t> old = Pattern(1, kBytes);
  Publish(old, 1);
  ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
  const auto* shown = static_cast<const uint8_t*>(subscriber.got.data);
  const_cast<uint8_t*>(shown)[kBytes / 2] ^= 1;  // Against the rules.
  const std::vector<uint8_t> data = Step(old, 0.01, 3);
  Publish(data, 2);
  EXPECT_EQ(subscriber.Fetch(0), CINCH_ERROR_FRAME_CHECKSUM);
  ASSERT_EQ(subscriber.Fetch(1), CINCH_OK);
  EXPECT_EQ(subscriber.got.version, 1u);
  EXPECT_EQ(subscriber.got.data, shown);
  ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
  EXPECT_EQ(subscriber.got.source, CINCH_VERSION_FULL);
  EXPECT_TRUE(subscriber.Holds(data));
}

TEST_F(Versions, FetchesWaitForTheirVersion) {
  Subscriber subscriber(listener, publisher);
  EXPECT_EQ(subscriber.Fetch(1, 0.05), CINCH_ERROR_TIMEOUT);
  std::vector<uint8_t> data = Pattern(1, kBytes);
  Publish(data, 1);
  ASSERT_EQ(subscriber.Fetch(1), CINCH_OK);
  EXPECT_EQ(subscriber.Fetch(2, 0.05), CINCH_ERROR_TIMEOUT);
  std::thread later([&] {
    data = Step(data, 0.01, 4);
    Publish(data, 2);
    data = Step(data, 0.01, 5);
    Publish(data, 3);
  });
  ASSERT_EQ(subscriber.Fetch(3), CINCH_OK);
  later.join();
  EXPECT_EQ(subscriber.got.version, 3u);
  EXPECT_TRUE(subscriber.Holds(data));
}

TEST_F(Versions, TheOldVersionStaysWhileTheNextOneComes) {
  Subscriber subscriber(listener, publisher);
  std::vector<uint8_t> data = Pattern(1, kBytes);
  Publish(data, 1);
  ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
  for (uint64_t version = 2; version < 12; ++version) {
    const std::vector<uint8_t> old = data;
    const auto* shown = static_cast<const uint8_t*>(subscriber.got.data);
    data = version % 3 == 0 ? Pattern(version, kBytes) : Step(data, 0.02, version);
    Publish(data, version);
    ASSERT_EQ(subscriber.Fetch(version), CINCH_OK);
    EXPECT_NE(subscriber.got.data, shown);
    EXPECT_EQ(std::memcmp(shown, old.data(), kBytes), 0);  // Until the fetch after this one.
    EXPECT_TRUE(subscriber.Holds(data));
  }
}

TEST_F(Versions, SubscribersMayGoAndBadCallsAreRefused) {
  std::vector<uint8_t> data = Pattern(1, kBytes);
  Publish(data, 1);
  {
    Subscriber gone(listener, publisher);
    ASSERT_EQ(gone.Fetch(0), CINCH_OK);
    EXPECT_EQ(gone.Fetch(9, 0.01), CINCH_ERROR_TIMEOUT);
  }
  Subscriber subscriber(listener, publisher);
  ASSERT_EQ(subscriber.Fetch(0), CINCH_OK);
  EXPECT_EQ(cinch_publish(publisher, kName, data.data(), kBytes, CINCH_DTYPE_BF16, 1, nullptr),
            CINCH_ERROR_INVALID_ARGUMENT);  // Not newer.
  EXPECT_EQ(cinch_publish(publisher, kName, data.data(), kBytes - 2, CINCH_DTYPE_BF16, 2, nullptr),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_publish(publisher, "", data.data(), kBytes, CINCH_DTYPE_BF16, 2, nullptr),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cinch_publish(publisher, std::string(96, 'x').c_str(), data.data(), kBytes,
                          CINCH_DTYPE_BF16, 2, nullptr),
            CINCH_ERROR_INVALID_ARGUMENT);
  cinch_version version{};
  version.struct_size = sizeof(version);
  EXPECT_EQ(cinch_fetch(subscriber.handle, "unknown", 0, nullptr, 1, &version),
            CINCH_ERROR_INVALID_ARGUMENT);
}

/// A publisher that says what it is told, over a connection of its own.
class LyingPublisher : public testing::Test {
 protected:
  using Answer = versions::VersionAnswer;

  LyingPublisher() {
    EXPECT_EQ(cinch_subscriber_create(pair_.left.get(), &subscriber_), CINCH_OK);
    EXPECT_EQ(cinch_subscribe(subscriber_, kName, buffers_[0].data(), buffers_[1].data(),
                              data_.size(), CINCH_DTYPE_BF16),
              CINCH_OK);
    Answer honest;
    honest.source = CINCH_VERSION_FULL;
    honest.payloads = 1;
    honest.version = 1;
    honest.content_hash = HashOf(data_);
    honest.bytes = honest.payload_bytes[0] = data_.size();
    EXPECT_EQ(Fetch(1, honest, sizeof(honest), &data_), CINCH_OK);
    honest_ = honest;
  }
  ~LyingPublisher() override { cinch_subscriber_destroy(subscriber_); }

  /// Fetches while the answer, of which so many bytes are sent, and perhaps a payload come.
  cinch_status Fetch(uint64_t version, const Answer& answer, size_t answer_bytes = sizeof(Answer),
                     const std::vector<uint8_t>* payload = nullptr) {
    std::thread liar([&] {
      versions::VersionRequest request;
      cinch_transfer_options options = TransferOptions(CINCH_POLICY_RAW);
      options.tag = versions::kRequestTag;
      options.tag_mask = ~versions::kNumberMask;
      EXPECT_EQ(Wait(Receive(pair_.right, &request, sizeof(request), &options)), CINCH_OK);
      options.tag = versions::kAnswerTag | request.number;
      EXPECT_EQ(Wait(Send(pair_.right, &answer, answer_bytes, &options)), CINCH_OK);
      if (payload == nullptr) return;
      options.tag = versions::kPayloadTag | request.number;
      EXPECT_EQ(Wait(Send(pair_.right, payload->data(), payload->size(), &options)), CINCH_OK);
    });
    got_ = {};
    got_.struct_size = sizeof(got_);
    const cinch_status status =
        cinch_fetch(subscriber_, kName, version, nullptr, kLongSeconds, &got_);
    liar.join();
    return status;
  }
  /// What is held is still what came in good order, in its place.
  [[nodiscard]] bool HoldsTheFirst() {
    cinch_version held{};
    held.struct_size = sizeof(held);
    return cinch_fetch(subscriber_, kName, 1, nullptr, kLongSeconds, &held) == CINCH_OK &&
           held.version == 1 && std::memcmp(held.data, data_.data(), data_.size()) == 0;
  }

  EnginePair pair_;
  const std::vector<uint8_t> data_ = Pattern(1, 10000);
  std::vector<uint8_t> buffers_[2] = {std::vector<uint8_t>(10000), std::vector<uint8_t>(10000)};
  cinch_subscriber* subscriber_ = nullptr;
  cinch_version got_{};
  Answer honest_;
};

TEST_F(LyingPublisher, IsNotBelieved) {
  const auto lie = [&](const char* what, auto&& change, uint64_t wanted = 2) {
    Answer answer = honest_;
    answer.version = 2;
    change(answer);
    EXPECT_EQ(Fetch(wanted, answer), CINCH_ERROR_PROTOCOL) << what;
    EXPECT_TRUE(HoldsTheFirst()) << what;
  };
  lie("magic", [](Answer& a) { a.magic = 0; });
  lie("a status above zero", [](Answer& a) { a.status = CINCH_IN_PROGRESS; });
  lie("an unknown status", [](Answer& a) { a.status = -100000; });
  lie("an unknown source", [](Answer& a) { a.source = 3; });
  lie("another size", [](Answer& a) { a.bytes -= 2; });
  lie("another payload", [](Answer& a) { a.payload_bytes[0] -= 2; });
  lie("two payloads of the whole", [](Answer& a) { a.payloads = 2; });
  lie("older than wanted", [](Answer& a) { a.version = 1; });
  lie(
      "no version", [](Answer& a) { a.version = 0; }, 0);
  // The other buffer, which nothing was written to, must not pass for the version.
  lie("no patches that lead to what is held", [](Answer& a) {
    a.source = CINCH_VERSION_PATCH;
    a.payloads = 0;
  });
  lie("too many patches", [](Answer& a) {
    a.source = CINCH_VERSION_PATCH;
    a.payloads = CINCH_MAX_PATCH_STEPS + 1;
  });
  lie("a patch that is larger than any", [](Answer& a) {
    a.source = CINCH_VERSION_PATCH;
    a.payload_bytes[0] = uint64_t{1} << 50;
  });
  lie("held, but another version", [](Answer& a) {
    a.source = CINCH_VERSION_HELD;
    a.payloads = 0;
  });
  lie(
      "held, but other contents",
      [](Answer& a) {
        a = {};
        a.source = CINCH_VERSION_HELD;
        a.version = 1;
        a.content_hash = 1;
        a.bytes = 10000;
      },
      0);
}

TEST_F(LyingPublisher, AnAnswerThatIsShortIsNotTheOneBefore) {
  for (const size_t bytes : {size_t{0}, size_t{4}, sizeof(Answer) - 1}) {
    EXPECT_EQ(Fetch(0, honest_, bytes), CINCH_ERROR_PROTOCOL) << bytes;
    EXPECT_TRUE(HoldsTheFirst());
  }
}

TEST_F(LyingPublisher, ErrorsAreHandedOnAndTheTruthIsTakenLater) {
  Answer answer = honest_;
  answer.status = CINCH_ERROR_INVALID_ARGUMENT;
  EXPECT_EQ(Fetch(2, answer), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(HoldsTheFirst());
  const std::vector<uint8_t> next = Step(data_, 0.5, 3);
  answer = honest_;
  answer.version = 2;
  EXPECT_EQ(Fetch(2, answer, sizeof(answer), &next), CINCH_ERROR_FRAME_CHECKSUM);
  EXPECT_TRUE(HoldsTheFirst());
  answer.content_hash = HashOf(next);
  ASSERT_EQ(Fetch(2, answer, sizeof(answer), &next), CINCH_OK);
  EXPECT_EQ(std::memcmp(got_.data, next.data(), next.size()), 0);
}

}  // namespace
}  // namespace cinch::transfer_test
