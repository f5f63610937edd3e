// SPDX-License-Identifier: Apache-2.0
#include "transfer/handshake.h"

#include <gtest/gtest.h>

namespace cinch::transfer {
namespace {

constexpr char kKey[] = "sixteen bytes or more";

HandshakeLocal Local(const std::string& key, uint8_t name) {
  Settings settings;
  settings.key = key;
  HandshakeLocal local;
  EXPECT_EQ(PrepareHandshake(settings, Bytes(300, name), local), CINCH_OK);
  return local;
}

struct Outcome {
  Status client = CINCH_IN_PROGRESS;
  Status server = CINCH_IN_PROGRESS;
};

/// Carries the messages of two handshakes, `step` bytes at a time, until neither has any more.
Outcome Converse(Handshake& client, Handshake& server, size_t step = 1 << 20) {
  Outcome outcome;
  const auto carry = [&](Handshake& from, Handshake& to, Status& status) {
    const Bytes bytes = from.TakeOutput();
    for (size_t at = 0; at < bytes.size() && status == CINCH_IN_PROGRESS; at += step) {
      status = to.Feed(ByteView(bytes).subspan(at, std::min(step, bytes.size() - at)));
    }
    return !bytes.empty();
  };
  while (carry(client, server, outcome.server) | carry(server, client, outcome.client)) {
  }
  return outcome;
}

TEST(Handshake, TellsEachOtherWhereAndWho) {
  for (const char* key : {"", kKey}) {
    for (const size_t step : {size_t{1}, size_t{7}, size_t{1} << 20}) {
      Handshake client(Handshake::Role::kClient, Local(key, 'c'));
      Handshake server(Handshake::Role::kServer, Local(key, 's'));
      const Outcome outcome = Converse(client, server, step);
      ASSERT_EQ(outcome.client, CINCH_OK);
      ASSERT_EQ(outcome.server, CINCH_OK);
      EXPECT_EQ(client.peer().address, server.local().address);
      EXPECT_EQ(server.peer().address, client.local().address);
      EXPECT_EQ(client.peer().session, server.local().session);
      EXPECT_EQ(server.peer().token, client.local().token);
      EXPECT_EQ(client.peer().hello.nonce, server.local().hello.nonce);
      EXPECT_NE(client.local().hello.nonce, server.local().hello.nonce);
      EXPECT_NE(client.local().token, server.local().token);
    }
  }
}

TEST(Handshake, TheServerSaysNothingBeforeTheClientHasProvedTheKey) {
  for (const char* key : {"", "another long enough key"}) {
    Handshake client(Handshake::Role::kClient, Local(key, 'c'));
    Handshake server(Handshake::Role::kServer, Local(kKey, 's'));
    const Outcome outcome = Converse(client, server);
    EXPECT_EQ(outcome.server, CINCH_ERROR_AUTHENTICATION);
    EXPECT_EQ(outcome.client, CINCH_ERROR_AUTHENTICATION);
    EXPECT_TRUE(client.peer().address.empty());
  }
}

TEST(Handshake, TheAddressIsLookedForOnceThePeerIsKnown) {
  for (const char* key : {kKey, "another long enough key"}) {
    int asked = 0;
    HandshakeLocal local = Local(kKey, 's');
    local.find_address = [&, ours = local.hello](const Hello& theirs, Bytes& address) {
      ++asked;
      EXPECT_TRUE(MayShareHost(ours, theirs));
      address = {7, 7, 7};
      return CINCH_OK;
    };
    Handshake server(Handshake::Role::kServer, local);
    Handshake client(Handshake::Role::kClient, Local(key, 'c'));
    const bool known = std::string(key) == kKey;
    EXPECT_EQ(Converse(client, server).client, known ? CINCH_OK : CINCH_ERROR_AUTHENTICATION);
    EXPECT_EQ(asked, known ? 1 : 0);
    EXPECT_EQ(client.peer().address, known ? Bytes({7, 7, 7}) : Bytes());
  }
}

TEST(Handshake, APeerHearsThatThereIsNoAddressForIt) {
  for (const bool at_server : {true, false}) {
    const auto none = [](const Hello&, Bytes&) { return CINCH_ERROR_OUT_OF_MEMORY; };
    HandshakeLocal server_local = Local(kKey, 's');
    HandshakeLocal client_local = Local(kKey, 'c');
    (at_server ? server_local : client_local).find_address = none;
    Handshake server(Handshake::Role::kServer, server_local);
    Handshake client(Handshake::Role::kClient, client_local);
    const Outcome outcome = Converse(client, server);
    EXPECT_EQ(at_server ? outcome.server : outcome.client, CINCH_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(at_server ? outcome.client : outcome.server, CINCH_ERROR_BUSY);
  }
}

TEST(Handshake, OnlyNamesThatDifferTellHostsApart) {
  Hello ours = Local("", 'c').hello;
  Hello theirs = Local("", 's').hello;
  EXPECT_TRUE(MayShareHost(ours, theirs));
  ours.host = 1;
  theirs.host = 2;
  EXPECT_FALSE(MayShareHost(ours, theirs));
  theirs.host = 0;
  EXPECT_TRUE(MayShareHost(ours, theirs));
  EXPECT_TRUE(MayShareHost(theirs, ours));

  // Peers from before hosts had names, and from after something else was added.
  Bytes body = BuildHello(ours);
  body.erase(body.begin(), body.begin() + kHandshakePrefixBytes);
  Hello parsed;
  EXPECT_EQ(ParseHello(ByteView(body).first(kHelloBytes), parsed), CINCH_OK);
  EXPECT_EQ(parsed.host, 0u);
  body.push_back(9);
  EXPECT_EQ(ParseHello(body, parsed), CINCH_OK);
  EXPECT_EQ(parsed.host, 1u);
}

TEST(Handshake, AServerWithoutTheKeyIsNotBelieved) {
  Handshake client(Handshake::Role::kClient, Local(kKey, 'c'));
  Handshake server(Handshake::Role::kServer, Local("another long enough key", 's'));
  static_cast<void>(server.Feed(client.TakeOutput()));
  EXPECT_EQ(client.Feed(server.TakeOutput()), CINCH_IN_PROGRESS);
  const Bytes proof = client.TakeOutput();
  // Sends the client's own proof back to it, as a server would that only repeats.
  EXPECT_EQ(client.Feed(proof), CINCH_ERROR_AUTHENTICATION);
}

TEST(Handshake, AChangedByteIsNoticed) {
  // Behind the prefixes, every byte of every message is covered by a MAC or checked.
  Handshake reference_client(Handshake::Role::kClient, Local(kKey, 'c'));
  const size_t hello_bytes = reference_client.TakeOutput().size();
  for (size_t at = 0; at < hello_bytes; ++at) {
    Handshake client(Handshake::Role::kClient, Local(kKey, 'c'));
    Handshake server(Handshake::Role::kServer, Local(kKey, 's'));
    Bytes hello = client.TakeOutput();
    hello[at] ^= 0x01;
    Status server_status = server.Feed(hello);
    Status client_status = client.Feed(server.TakeOutput());
    if (server_status == CINCH_IN_PROGRESS) server_status = server.Feed(client.TakeOutput());
    if (client_status == CINCH_IN_PROGRESS) client_status = client.Feed(server.TakeOutput());
    EXPECT_NE(server_status, CINCH_OK) << at;
    EXPECT_NE(client_status, CINCH_OK) << at;
    EXPECT_TRUE(client.peer().address.empty()) << at;
  }
}

TEST(Handshake, AChangedAddressIsNoticed) {
  for (size_t at = 0; at < 400; at += 3) {
    Handshake client(Handshake::Role::kClient, Local(kKey, 'c'));
    Handshake server(Handshake::Role::kServer, Local(kKey, 's'));
    EXPECT_EQ(server.Feed(client.TakeOutput()), CINCH_IN_PROGRESS);
    EXPECT_EQ(client.Feed(server.TakeOutput()), CINCH_IN_PROGRESS);
    EXPECT_EQ(server.Feed(client.TakeOutput()), CINCH_IN_PROGRESS);
    Bytes answer = server.TakeOutput();
    if (at >= answer.size()) break;
    answer[at] ^= 0x80;
    const Status status = client.Feed(answer);
    EXPECT_NE(status, CINCH_OK) << at;
  }
}

TEST(Handshake, ReplayedMessagesAreUseless) {
  Handshake client(Handshake::Role::kClient, Local(kKey, 'c'));
  Handshake server(Handshake::Role::kServer, Local(kKey, 's'));
  const Bytes hello = client.TakeOutput();
  EXPECT_EQ(server.Feed(hello), CINCH_IN_PROGRESS);
  EXPECT_EQ(client.Feed(server.TakeOutput()), CINCH_IN_PROGRESS);
  const Bytes proof = client.TakeOutput();
  Handshake later(Handshake::Role::kServer, Local(kKey, 's'));
  EXPECT_EQ(later.Feed(hello), CINCH_IN_PROGRESS);
  static_cast<void>(later.TakeOutput());
  EXPECT_EQ(later.Feed(proof), CINCH_ERROR_AUTHENTICATION);
}

TEST(Handshake, IncompatiblePeersAreNamed) {
  const Hello ours = Local("", 'a').hello;
  const auto check = [&](auto&& change) -> Status {
    Hello theirs = Local("", 'b').hello;
    change(theirs);
    // Both sides come to the same conclusion.
    EXPECT_EQ(CheckCompatible(ours, theirs), CheckCompatible(theirs, ours));
    return CheckCompatible(ours, theirs);
  };
  EXPECT_EQ(check([](Hello&) {}), CINCH_OK);
  EXPECT_EQ(check([](Hello& h) { h.protocol_max = 7; }), CINCH_OK);
  EXPECT_EQ(check([](Hello& h) { h.protocol_min = h.protocol_max = kProtocolVersion + 1; }),
            CINCH_ERROR_VERSION_MISMATCH);
  EXPECT_EQ(check([](Hello& h) { h.format_min = h.format_max = 2; }), CINCH_ERROR_VERSION_MISMATCH);
  EXPECT_EQ(check([](Hello& h) { h.required = uint64_t{1} << 40; }),
            CINCH_ERROR_CAPABILITY_MISMATCH);
  EXPECT_EQ(check([](Hello& h) { h.capabilities = 0; }), CINCH_ERROR_CAPABILITY_MISMATCH);
  EXPECT_EQ(check([](Hello& h) { h.flags = kHelloHasKey; }), CINCH_ERROR_AUTHENTICATION);
  EXPECT_EQ(check([](Hello& h) { h.dtype_sizes[CINCH_DTYPE_BF16] = 4; }),
            CINCH_ERROR_DTYPE_MISMATCH);
  EXPECT_EQ(check([](Hello& h) { h.dtype_sizes[31] = 16; }), CINCH_OK);
  Hello theirs = ours;
  theirs.segment_bytes = uint64_t{1} << 40;
  EXPECT_EQ(CheckCompatible(ours, theirs), CINCH_ERROR_CAPABILITY_MISMATCH);
  theirs = ours;
  theirs.peer_timeout_milliseconds = 0;
  EXPECT_EQ(CheckCompatible(ours, theirs), CINCH_ERROR_CAPABILITY_MISMATCH);
}

TEST(Handshake, MessagesOutOfOrderAreRefused) {
  for (const Bytes& first : {BuildProof(Mac{}), BuildAddress({1, 2, Bytes(10), Mac{}})}) {
    Handshake server(Handshake::Role::kServer, Local("", 's'));
    EXPECT_EQ(server.Feed(first), CINCH_ERROR_PROTOCOL);
    EXPECT_EQ(server.TakeOutput(), BuildRefuse(CINCH_ERROR_PROTOCOL));
    EXPECT_EQ(server.Feed(first), CINCH_ERROR_PROTOCOL);
  }
}

TEST(Handshake, StrangersCannotMakeItHoldMuch) {
  // The largest body is refused by its prefix alone as long as nothing is proved.
  Handshake server(Handshake::Role::kServer, Local("", 's'));
  Bytes claim = BuildAddress({1, 2, Bytes(60000), Mac{}});
  claim.resize(kHandshakePrefixBytes);
  EXPECT_EQ(server.Feed(claim), CINCH_ERROR_PROTOCOL);
  Handshake other(Handshake::Role::kServer, Local("", 's'));
  Bytes hello = BuildHello(Local("", 'c').hello);
  hello[8] = 0xFF;
  hello[9] = 0xFF;
  hello.resize(kHandshakePrefixBytes);
  EXPECT_EQ(other.Feed(hello), CINCH_ERROR_PROTOCOL);
}

TEST(Handshake, RefusalsAreOnlyWhatAPeerMaySay) {
  Status reason = CINCH_OK;
  for (const Status allowed :
       {CINCH_ERROR_VERSION_MISMATCH, CINCH_ERROR_AUTHENTICATION, CINCH_ERROR_BUSY}) {
    EXPECT_EQ(ParseRefuse(ByteView(BuildRefuse(allowed)).subspan(kHandshakePrefixBytes), reason),
              CINCH_OK);
    EXPECT_EQ(reason, allowed);
  }
  for (const Status other : {CINCH_OK, CINCH_ERROR_IO, CINCH_IN_PROGRESS}) {
    const Bytes message = BuildRefuse(other);
    EXPECT_EQ(ParseRefuse(ByteView(message).subspan(kHandshakePrefixBytes), reason),
              CINCH_ERROR_PROTOCOL);
  }
}

TEST(Handshake, ShortBodiesAreRefused) {
  const Bytes hello = BuildHello(Local("", 'c').hello);
  ASSERT_EQ(hello.size(), kHandshakePrefixBytes + kHelloBytes + sizeof(uint64_t));
  const Bytes address = BuildAddress({1, 2, Bytes(10), Mac{}});
  Hello parsed_hello;
  AddressMessage parsed_address;
  Mac mac{};
  for (size_t bytes = 0; bytes < kHelloBytes; ++bytes) {
    EXPECT_EQ(ParseHello(ByteView(hello).subspan(kHandshakePrefixBytes, bytes), parsed_hello),
              CINCH_ERROR_PROTOCOL);
  }
  for (size_t bytes = 0; bytes + kHandshakePrefixBytes < address.size(); ++bytes) {
    EXPECT_EQ(ParseAddress(ByteView(address).subspan(kHandshakePrefixBytes, bytes), parsed_address),
              CINCH_ERROR_PROTOCOL);
  }
  EXPECT_EQ(ParseProof(Bytes(31), mac), CINCH_ERROR_PROTOCOL);
  EXPECT_EQ(ParseProof(Bytes(33), mac), CINCH_ERROR_PROTOCOL);
}

// Two lists of parts never look alike, whatever their concatenation.
TEST(Secret, MacDependsOnKeyAndParts) {
  const Bytes left = {1, 2};
  const Bytes right = {3};
  const Bytes joined = {1, 2, 3};
  Mac split{};
  Mac whole{};
  Mac other_key{};
  const ByteView two[] = {left, right};
  const ByteView one[] = {joined};
  EXPECT_EQ(ComputeMac(kKey, two, split), CINCH_OK);
  EXPECT_EQ(ComputeMac(kKey, one, whole), CINCH_OK);
  EXPECT_EQ(ComputeMac("another long enough key", one, other_key), CINCH_OK);
  EXPECT_FALSE(EqualMacs(split, whole));
  EXPECT_FALSE(EqualMacs(whole, other_key));
  Mac again{};
  EXPECT_EQ(ComputeMac(kKey, one, again), CINCH_OK);
  EXPECT_TRUE(EqualMacs(whole, again));
}

}  // namespace
}  // namespace cinch::transfer
