// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/secure_stream.hpp"

#include <algorithm>

#include "base/byte_codec.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMostAtOnce = std::size_t{64} << 10;

Error bad_frame(const char* field, std::uint64_t value, std::uint64_t limit) noexcept {
  return {.code = Errc::malformed,
          .operation = "session",
          .field = field,
          .value = value,
          .limit = limit};
}

}  // namespace

SecureStream::SecureStream(SessionEnd end, const Key& secret, const JobId& job)
    : end_(end), secret_(secret), ours_(new_hello(job)) {
  if (end == SessionEnd::coordinator) return;
  const auto hello = encode(ours_);
  outgoing_.assign(hello.begin(), hello.end());
}

SecureStream::~SecureStream() {
  sodium_memzero(secret_.data(), secret_.size());
  sodium_memzero(pull_key_.data(), pull_key_.size());
  sodium_memzero(&push_, sizeof push_);
  sodium_memzero(&pull_, sizeof pull_);
}

std::span<const std::byte> SecureStream::rest() const noexcept {
  return std::span{incoming_}.subspan(consumed_);
}

void SecureStream::consume(std::size_t count) noexcept {
  consumed_ += count;
  if (consumed_ != incoming_.size()) return;
  consumed_ = 0;
  incoming_.clear();
  // Large frames are rare, so give the memory back.
  if (incoming_.capacity() > 2 * kMostAtOnce) std::vector<std::byte>{}.swap(incoming_);
}

std::size_t SecureStream::room() const noexcept {
  if (trusted_ || end_ == SessionEnd::client) return kMostAtOnce;
  // All that a client may send before it is trusted. The rest stays in the socket.
  constexpr std::size_t kMost = kHelloBytes + sizeof header_ + kLengthBytes + kMaxFirstFrameBytes;
  return kMost - std::min(kMost, rest().size());
}

void SecureStream::feed(std::span<const std::byte> bytes) {
  if (consumed_ > kMostAtOnce && consumed_ >= incoming_.size() / 2) {
    incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(consumed_));
    consumed_ = 0;
  }
  incoming_.insert(incoming_.end(), bytes.begin(), bytes.end());
}

Result<void> SecureStream::greet() {
  const auto bytes = rest().first<kHelloBytes>();
  const bool answers = end_ == SessionEnd::coordinator;
  const auto theirs = decode_hello(bytes);
  // A peer that speaks another version of this protocol gets our hello, so that it can report the
  // mismatch.
  if (answers && (theirs || theirs.error().code == Errc::incompatible)) {
    const auto hello = encode(ours_);
    outgoing_.insert(outgoing_.end(), hello.begin(), hello.end());
  }
  if (!theirs) return std::unexpected(theirs.error());
  if (theirs->job != ours_.job)
    return std::unexpected(
        Error{.code = Errc::incompatible, .operation = "session", .field = "job"});
  SessionKeys keys;
  derive(keys, secret_, ours_.job, answers ? theirs->nonce : ours_.nonce,
         answers ? ours_.nonce : theirs->nonce);
  pull_key_ = answers ? keys.from_client : keys.from_coordinator;
  const Key& push_key = answers ? keys.from_coordinator : keys.from_client;
  crypto_secretstream_xchacha20poly1305_init_push(&push_, to_sodium(header_.data()),
                                                  to_sodium(push_key.data()));
  sodium_memzero(secret_.data(), secret_.size());  // Not needed again.
  greeted_ = true;
  consume(kHelloBytes);
  return {};
}

Result<std::optional<std::vector<std::byte>>> SecureStream::open_frame() {
  if (rest().size() < kLengthBytes) return std::nullopt;
  ByteReader reader{"session", rest()};
  const std::size_t length = VERBATIM_TRY(reader.get<std::uint32_t>("frame length"));
  const std::size_t most =
      trusted_ || end_ == SessionEnd::client ? kMaxFrameCiphertext : kMaxFirstFrameBytes;
  if (length <= kFrameOverhead || length > most)
    return std::unexpected(bad_frame("frame length", length, most));
  if (reader.remaining() < length) return std::nullopt;
  const auto ciphertext = VERBATIM_TRY(reader.get_bytes("frame", length));
  std::vector<std::byte> plaintext(length - kFrameOverhead);
  unsigned char tag = 0;
  if (crypto_secretstream_xchacha20poly1305_pull(&pull_, to_sodium(plaintext.data()), nullptr, &tag,
                                                 to_sodium(ciphertext.data()), length, nullptr,
                                                 0) != 0) {
    if (opened_one_) return std::unexpected(bad_frame("frame", length, 0));
    return std::unexpected(
        Error{.code = Errc::permission_denied, .operation = "session", .field = "secret"});
  }
  opened_one_ = true;
  consume(kLengthBytes + length);
  return plaintext;
}

Result<std::optional<std::vector<std::byte>>> SecureStream::next() {
  if (!greeted_) {
    // Bytes with another beginning can never become a hello, so fail early.
    if (rest().size() >= 4 && rest().size() < kHelloBytes) {
      std::array<std::byte, kHelloBytes> begun = encode(Hello{});
      std::copy_n(rest().begin(), 4, begun.begin());
      static_cast<void>(VERBATIM_TRY(decode_hello(begun)));
    }
    if (rest().size() < kHelloBytes) return std::nullopt;
    VERBATIM_TRY(greet());
  }
  if (!header_read_) {
    if (rest().size() < header_.size()) return std::nullopt;
    if (crypto_secretstream_xchacha20poly1305_init_pull(&pull_, to_sodium(rest().data()),
                                                        to_sodium(pull_key_.data())) != 0)
      return std::unexpected(bad_frame("header", 0, 0));
    header_read_ = true;
    consume(header_.size());
  }
  return open_frame();
}

void SecureStream::send(std::span<const std::byte> plaintext) {
  check(greeted_ && !plaintext.empty() && plaintext.size() <= kMaxPlaintext,
        "SecureStream::send: a frame that can be sent");
  if (!header_sent_) outgoing_.insert(outgoing_.end(), header_.begin(), header_.end());
  header_sent_ = true;
  const std::size_t length = plaintext.size() + kFrameOverhead;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    outgoing_.push_back(static_cast<std::byte>(length >> (8 * i) & 0xff));
  outgoing_.resize(outgoing_.size() + length);
  crypto_secretstream_xchacha20poly1305_push(
      &push_, to_sodium(outgoing_.data() + outgoing_.size() - length), nullptr,
      to_sodium(plaintext.data()), plaintext.size(), nullptr, 0, 0);
}

}  // namespace verbatim::detail
