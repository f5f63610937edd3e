// SPDX-License-Identifier: Apache-2.0
#include "transfer/handshake.h"

#include <cmath>
#include <cstring>
#include <fstream>

namespace cinch::transfer {
namespace {

constexpr uint32_t kMinPeerTimeoutMilliseconds = 10;

ByteView AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A name of the running kernel; 0: it has none. Shared memory reaches as far as that, whatever the
// network is called.
uint64_t HostName() {
  static const uint64_t name = [] {
    std::string text;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
    if (text.empty()) return uint64_t{0};
    Mac mac{};
    const ByteView parts[] = {AsBytes(text)};
    if (ComputeMac("cinch host", parts, mac) != CINCH_OK) return uint64_t{0};
    uint64_t folded = 0;
    std::memcpy(&folded, mac.data(), sizeof(folded));
    return folded;
  }();
  return name;
}

// The role is part of what is proved, so that a proof cannot be sent back to its author.
std::string_view ProofLabel(Handshake::Role author) {
  return author == Handshake::Role::kClient ? "cinch proof client" : "cinch proof server";
}

std::string_view AddressLabel(Handshake::Role author) {
  return author == Handshake::Role::kClient ? "cinch address client" : "cinch address server";
}

bool Overlap(uint16_t left_min, uint16_t left_max, uint16_t right_min, uint16_t right_max) {
  return left_min <= right_max && right_min <= left_max;
}

Status CheckDtypes(const Hello& ours, const Hello& theirs) {
  for (size_t i = 0; i < kDtypeTableEntries; ++i) {
    const uint8_t left = ours.dtype_sizes[i];
    const uint8_t right = theirs.dtype_sizes[i];
    if (left != 0 && right != 0 && left != right) return CINCH_ERROR_DTYPE_MISMATCH;
  }
  constexpr uint32_t kAnything = CINCH_DTYPE_AUTO;
  const bool both_named = ours.dtype != kAnything && theirs.dtype != kAnything;
  return both_named && ours.dtype != theirs.dtype ? CINCH_ERROR_DTYPE_MISMATCH : CINCH_OK;
}

}  // namespace

Status PrepareHandshake(const Settings& settings, Bytes address, HandshakeLocal& local) {
  Hello& hello = local.hello;
  hello.protocol_min = hello.protocol_max = kProtocolVersion;
  hello.format_min = hello.format_max = kFormatVersion;
  hello.capabilities = kCapabilityFrames | kCapabilityOneSided;
  if (settings.share_device_memory) hello.capabilities |= kCapabilityShared;
  hello.required = settings.policy == policy::Mode::kRaw ? 0 : kCapabilityFrames;
  hello.segment_bytes = settings.segment_bytes;
  hello.flags = settings.key.empty() ? 0 : kHelloHasKey;
  hello.dtype = static_cast<uint32_t>(settings.dtype);
  hello.peer_timeout_milliseconds =
      static_cast<uint32_t>(std::lround(settings.peer_timeout_seconds * 1e3));
  hello.codec_threads = settings.codec_threads;
  for (size_t i = 0; i < kDtypeTableEntries; ++i) {
    hello.dtype_sizes[i] =
        static_cast<uint8_t>(cinch_dtype_size(static_cast<cinch_dtype>(static_cast<int>(i))));
  }
  hello.host = HostName();
  CINCH_RETURN_IF_ERROR(RandomBytes(hello.nonce));
  std::array<uint8_t, 2 * sizeof(uint64_t)> names{};
  CINCH_RETURN_IF_ERROR(RandomBytes(names));
  std::memcpy(&local.session, names.data(), sizeof(uint64_t));
  std::memcpy(&local.token, names.data() + sizeof(uint64_t), sizeof(uint64_t));
  local.key = settings.key;
  local.address = std::move(address);
  return CINCH_OK;
}

bool MayShareHost(const Hello& ours, const Hello& theirs) {
  return ours.host == 0 || theirs.host == 0 || ours.host == theirs.host;
}

Status CheckCompatible(const Hello& ours, const Hello& theirs) {
  if (!Overlap(ours.protocol_min, ours.protocol_max, theirs.protocol_min, theirs.protocol_max) ||
      !Overlap(ours.format_min, ours.format_max, theirs.format_min, theirs.format_max)) {
    return CINCH_ERROR_VERSION_MISMATCH;
  }
  if ((ours.required & ~theirs.capabilities) != 0 || (theirs.required & ~ours.capabilities) != 0 ||
      theirs.segment_bytes < kMinSegmentBytes || theirs.segment_bytes > kMaxSegmentBytes ||
      theirs.peer_timeout_milliseconds < kMinPeerTimeoutMilliseconds ||
      theirs.codec_threads > kMaxCodecThreads) {
    return CINCH_ERROR_CAPABILITY_MISMATCH;
  }
  if (((ours.flags ^ theirs.flags) & kHelloHasKey) != 0) return CINCH_ERROR_AUTHENTICATION;
  return CheckDtypes(ours, theirs);
}

Handshake::Handshake(Role role, HandshakeLocal local)
    : role_(role),
      peer_role_(role == Role::kClient ? Role::kServer : Role::kClient),
      local_(std::move(local)) {
  if (role_ == Role::kClient) {
    client_hello_ = BuildHello(local_.hello);
    Send(client_hello_);
  }
}

void Handshake::Send(const Bytes& message) {
  output_.insert(output_.end(), message.begin(), message.end());
}

Bytes Handshake::TakeOutput() {
  Bytes taken;
  taken.swap(output_);
  return taken;
}

Status Handshake::Feed(ByteView bytes) {
  if (state_ == State::kDone || state_ == State::kFailed) return CINCH_ERROR_PROTOCOL;
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  while (state_ != State::kDone && input_.size() >= kHandshakePrefixBytes) {
    HandshakePrefix prefix;
    Status status = ParsePrefix(ByteView(input_).first(kHandshakePrefixBytes), prefix);
    // Judged before the body is waited for, so that a stranger cannot make us hold a large one.
    if (status == CINCH_OK && !Expects(prefix.type)) status = CINCH_ERROR_PROTOCOL;
    if (status == CINCH_OK) {
      const size_t whole_bytes = kHandshakePrefixBytes + prefix.body_bytes;
      if (input_.size() < whole_bytes) return CINCH_IN_PROGRESS;
      const Bytes message(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(whole_bytes));
      input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(whole_bytes));
      if (prefix.type == HandshakeType::kHello) {
        (role_ == Role::kClient ? server_hello_ : client_hello_) = message;
      }
      status = OnMessage(prefix.type, ByteView(message).subspan(kHandshakePrefixBytes));
    }
    if (status != CINCH_OK) {
      // A peer that refused needs no refusal back.
      if (state_ != State::kFailed) Send(BuildRefuse(status));
      state_ = State::kFailed;
      return status;
    }
  }
  if (state_ != State::kDone) return CINCH_IN_PROGRESS;
  // Nothing may follow on this connection, which from now on only shows whether the peer lives.
  return input_.empty() ? CINCH_OK : CINCH_ERROR_PROTOCOL;
}

bool Handshake::Expects(HandshakeType type) const {
  switch (type) {
    case HandshakeType::kHello:
      return state_ == State::kWantHello;
    case HandshakeType::kProof:
      return state_ == State::kWantProof;
    case HandshakeType::kAddress:
      return state_ == State::kWantAddress;
    case HandshakeType::kRefuse:
      return true;
  }
  return false;
}

Status Handshake::OnMessage(HandshakeType type, ByteView body) {
  switch (type) {
    case HandshakeType::kHello:
      return OnHello(body);
    case HandshakeType::kProof:
      return OnProof(body);
    case HandshakeType::kAddress:
      return OnAddress(body);
    case HandshakeType::kRefuse:
      break;
  }
  Status reason = CINCH_ERROR_PROTOCOL;
  CINCH_RETURN_IF_ERROR(ParseRefuse(body, reason));
  state_ = State::kFailed;
  return reason;
}

Status Handshake::OnHello(ByteView body) {
  CINCH_RETURN_IF_ERROR(ParseHello(body, peer_.hello));
  CINCH_RETURN_IF_ERROR(CheckCompatible(local_.hello, peer_.hello));
  state_ = State::kWantProof;
  if (role_ == Role::kServer) {
    server_hello_ = BuildHello(local_.hello);
    Send(server_hello_);
    return CINCH_OK;
  }
  Mac mac{};
  CINCH_RETURN_IF_ERROR(MakeProof(role_, mac));
  Send(BuildProof(mac));
  return CINCH_OK;
}

Status Handshake::OnProof(ByteView body) {
  Mac theirs{};
  CINCH_RETURN_IF_ERROR(ParseProof(body, theirs));
  Mac expected{};
  CINCH_RETURN_IF_ERROR(MakeProof(peer_role_, expected));
  if (!EqualMacs(theirs, expected)) return CINCH_ERROR_AUTHENTICATION;
  state_ = State::kWantAddress;
  if (role_ == Role::kClient) return CINCH_OK;
  Mac mac{};
  CINCH_RETURN_IF_ERROR(MakeProof(role_, mac));
  Send(BuildProof(mac));
  return SendAddress();
}

Status Handshake::OnAddress(ByteView body) {
  AddressMessage message;
  CINCH_RETURN_IF_ERROR(ParseAddress(body, message));
  Mac expected{};
  CINCH_RETURN_IF_ERROR(MakeAddressMac(peer_role_, message, expected));
  if (!EqualMacs(message.mac, expected)) return CINCH_ERROR_AUTHENTICATION;
  peer_.session = message.session;
  peer_.token = message.token;
  peer_.address = std::move(message.address);
  if (role_ == Role::kClient) CINCH_RETURN_IF_ERROR(SendAddress());
  state_ = State::kDone;
  return CINCH_OK;
}

Status Handshake::MakeProof(Role author, Mac& mac) const {
  mac.fill(0);
  if (local_.key.empty()) return CINCH_OK;
  const ByteView parts[] = {AsBytes(ProofLabel(author)), client_hello_, server_hello_};
  return ComputeMac(local_.key, parts, mac);
}

Status Handshake::MakeAddressMac(Role author, const AddressMessage& message, Mac& mac) const {
  mac.fill(0);
  if (local_.key.empty()) return CINCH_OK;
  uint8_t names[2 * sizeof(uint64_t)];
  std::memcpy(names, &message.session, sizeof(uint64_t));
  std::memcpy(names + sizeof(uint64_t), &message.token, sizeof(uint64_t));
  const ByteView parts[] = {AsBytes(AddressLabel(author)), client_hello_, server_hello_, names,
                            message.address};
  return ComputeMac(local_.key, parts, mac);
}

Status Handshake::SendAddress() {
  if (local_.find_address) {
    const Status found = local_.find_address(peer_.hello, local_.address);
    if (found != CINCH_OK) {
      Send(BuildRefuse(CINCH_ERROR_BUSY));  // Why is none of the peer's business.
      state_ = State::kFailed;
      return found;
    }
  }
  AddressMessage message{local_.session, local_.token, local_.address, {}};
  CINCH_RETURN_IF_ERROR(MakeAddressMac(role_, message, message.mac));
  Send(BuildAddress(message));
  return CINCH_OK;
}

}  // namespace cinch::transfer
