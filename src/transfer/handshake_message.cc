// SPDX-License-Identifier: Apache-2.0
#include "transfer/handshake_message.h"

#include <concepts>
#include <cstring>

namespace cinch::transfer {
namespace {

// Reads fixed-size values and remembers whether the bytes ran out.
class Reader {
 public:
  explicit Reader(ByteView bytes) : bytes_(bytes) {}

  template <std::integral T>
  T Read() {
    T value{};
    Copy(&value, sizeof(value));
    return value;
  }

  template <size_t kCount>
  void Read(std::array<uint8_t, kCount>& array) {
    Copy(array.data(), kCount);
  }

  ByteView Take(size_t count) {
    if (count > bytes_.size()) {
      short_ = true;
      return {};
    }
    const ByteView taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  [[nodiscard]] bool ok() const { return !short_; }
  [[nodiscard]] bool at_end() const { return ok() && bytes_.empty(); }

 private:
  void Copy(void* destination, size_t count) {
    const ByteView taken = Take(count);
    if (!taken.empty()) std::memcpy(destination, taken.data(), count);
  }

  ByteView bytes_;
  bool short_ = false;
};

template <std::integral T>
void Append(Bytes& bytes, T value) {
  const auto* first = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(value));
}

template <typename Range>
void AppendRange(Bytes& bytes, const Range& range) {
  bytes.insert(bytes.end(), range.begin(), range.end());
}

Bytes WithPrefix(HandshakeType type, const Bytes& body) {
  Bytes message;
  Append(message, kHandshakeMagic);
  Append(message, static_cast<uint32_t>(type));
  Append(message, static_cast<uint32_t>(body.size()));
  AppendRange(message, body);
  return message;
}

uint32_t MaxBodyBytes(HandshakeType type) {
  return type == HandshakeType::kAddress ? kMaxAddressBytes : kMaxHelloBytes;
}

bool MayRefuseWith(int32_t value) {
  switch (value) {
    case CINCH_ERROR_VERSION_MISMATCH:
    case CINCH_ERROR_CAPABILITY_MISMATCH:
    case CINCH_ERROR_DTYPE_MISMATCH:
    case CINCH_ERROR_AUTHENTICATION:
    case CINCH_ERROR_PROTOCOL:
    case CINCH_ERROR_BUSY:
    case CINCH_ERROR_TIMEOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status ParsePrefix(ByteView bytes, HandshakePrefix& prefix) {
  Reader reader(bytes);
  const auto magic = reader.Read<uint32_t>();
  const auto type = reader.Read<uint32_t>();
  prefix.body_bytes = reader.Read<uint32_t>();
  if (!reader.at_end() || magic != kHandshakeMagic) return CINCH_ERROR_PROTOCOL;
  if (type < static_cast<uint32_t>(HandshakeType::kHello) ||
      type > static_cast<uint32_t>(HandshakeType::kRefuse)) {
    return CINCH_ERROR_PROTOCOL;
  }
  prefix.type = static_cast<HandshakeType>(type);
  return prefix.body_bytes <= MaxBodyBytes(prefix.type) ? CINCH_OK : CINCH_ERROR_PROTOCOL;
}

Bytes BuildHello(const Hello& hello) {
  Bytes body;
  Append(body, hello.protocol_min);
  Append(body, hello.protocol_max);
  Append(body, hello.format_min);
  Append(body, hello.format_max);
  Append(body, hello.capabilities);
  Append(body, hello.required);
  Append(body, hello.segment_bytes);
  Append(body, hello.flags);
  Append(body, hello.dtype);
  Append(body, hello.peer_timeout_milliseconds);
  Append(body, hello.codec_threads);
  AppendRange(body, hello.dtype_sizes);
  AppendRange(body, hello.nonce);
  Append(body, hello.host);
  return WithPrefix(HandshakeType::kHello, body);
}

Bytes BuildProof(const Mac& mac) {
  return WithPrefix(HandshakeType::kProof, Bytes(mac.begin(), mac.end()));
}

Bytes BuildAddress(const AddressMessage& message) {
  Bytes body;
  Append(body, message.session);
  Append(body, message.token);
  Append(body, static_cast<uint32_t>(message.address.size()));
  AppendRange(body, message.address);
  AppendRange(body, message.mac);
  return WithPrefix(HandshakeType::kAddress, body);
}

Bytes BuildRefuse(Status reason) {
  Bytes body;
  Append(body, static_cast<int32_t>(reason));
  return WithPrefix(HandshakeType::kRefuse, body);
}

Status ParseHello(ByteView body, Hello& hello) {
  Reader reader(body);
  hello.protocol_min = reader.Read<uint16_t>();
  hello.protocol_max = reader.Read<uint16_t>();
  hello.format_min = reader.Read<uint16_t>();
  hello.format_max = reader.Read<uint16_t>();
  hello.capabilities = reader.Read<uint64_t>();
  hello.required = reader.Read<uint64_t>();
  hello.segment_bytes = reader.Read<uint64_t>();
  hello.flags = reader.Read<uint32_t>();
  hello.dtype = reader.Read<uint32_t>();
  hello.peer_timeout_milliseconds = reader.Read<uint32_t>();
  hello.codec_threads = reader.Read<uint32_t>();
  reader.Read(hello.dtype_sizes);
  reader.Read(hello.nonce);
  hello.host = body.size() < kHelloBytes + sizeof(hello.host) ? 0 : reader.Read<uint64_t>();
  const bool ranges = hello.protocol_min <= hello.protocol_max &&
                      hello.format_min <= hello.format_max && hello.protocol_min > 0 &&
                      hello.format_min > 0;
  return reader.ok() && ranges ? CINCH_OK : CINCH_ERROR_PROTOCOL;
}

Status ParseProof(ByteView body, Mac& mac) {
  Reader reader(body);
  reader.Read(mac);
  return reader.at_end() ? CINCH_OK : CINCH_ERROR_PROTOCOL;
}

Status ParseAddress(ByteView body, AddressMessage& message) {
  Reader reader(body);
  message.session = reader.Read<uint64_t>();
  message.token = reader.Read<uint64_t>();
  const auto address_bytes = reader.Read<uint32_t>();
  const ByteView address = reader.Take(address_bytes);
  message.address.assign(address.begin(), address.end());
  reader.Read(message.mac);
  return reader.at_end() && !message.address.empty() ? CINCH_OK : CINCH_ERROR_PROTOCOL;
}

Status ParseRefuse(ByteView body, Status& reason) {
  Reader reader(body);
  const auto value = reader.Read<int32_t>();
  if (!reader.at_end() || !MayRefuseWith(value)) return CINCH_ERROR_PROTOCOL;
  reason = static_cast<Status>(value);
  return CINCH_OK;
}

}  // namespace cinch::transfer
