// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A session's bytes in both directions, without a socket: hello, then encrypted frames.
///
///     hello   secretstream header:192   { length:32  ciphertext }...
///
/// Nothing that comes is trusted. Before trust() a frame may have 4 KiB, afterwards 16 MiB. Nothing
/// is allocated for bytes that have not come. The coordinator answers a client that speaks this
/// protocol with its hello, and sends nothing more before it has authenticated the client's first
/// frame.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "network/hello.hpp"
#include "network/sodium.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

inline constexpr std::size_t kMaxFirstFrameBytes = 4096;
inline constexpr std::size_t kMaxFrameCiphertext = std::size_t{16} << 20;
inline constexpr std::size_t kFrameOverhead = crypto_secretstream_xchacha20poly1305_ABYTES;
/// The longest plaintext of a frame.
inline constexpr std::size_t kMaxPlaintext = kMaxFrameCiphertext - kFrameOverhead;

enum class SessionEnd : std::uint8_t { client, coordinator };

class SecureStream {
 public:
  using Key = std::array<std::byte, 32>;
  SecureStream(SessionEnd end, const Key& secret, const JobId& job);
  SecureStream(SecureStream&&) noexcept = default;
  SecureStream& operator=(SecureStream&&) noexcept = default;
  ~SecureStream();

  /// Bytes from the peer. At most room() of them.
  void feed(std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t room() const noexcept;
  /// The next plaintext, or nothing yet. After an error nothing more comes: send what is in
  /// outgoing() and close. `incompatible` names "version" or "job"; `permission_denied` is a first
  /// frame that is not authentic; `malformed` is anything else.
  [[nodiscard]] Result<std::optional<std::vector<std::byte>>> next();
  /// Both hellos are there: send() may be called (by the coordinator after the first frame).
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }
  /// The peer has proved that it knows the secret, and may send large frames.
  void trust() noexcept { trusted_ = true; }
  [[nodiscard]] bool trusted() const noexcept { return trusted_; }

  /// Between 1 byte and kMaxPlaintext.
  void send(std::span<const std::byte> plaintext);
  /// What must be written to the peer; the caller takes from its front.
  [[nodiscard]] std::vector<std::byte>& outgoing() noexcept { return outgoing_; }

 private:
  [[nodiscard]] Result<void> greet();
  [[nodiscard]] Result<std::optional<std::vector<std::byte>>> open_frame();
  [[nodiscard]] std::span<const std::byte> rest() const noexcept;
  void consume(std::size_t count) noexcept;

  SessionEnd end_;
  Key secret_;
  Hello ours_;
  bool greeted_ = false;
  bool header_read_ = false;
  bool header_sent_ = false;
  bool opened_one_ = false;
  bool trusted_ = false;
  Key pull_key_{};
  std::vector<std::byte> incoming_{};
  std::size_t consumed_ = 0;
  std::vector<std::byte> outgoing_{};
  crypto_secretstream_xchacha20poly1305_state push_{};
  crypto_secretstream_xchacha20poly1305_state pull_{};
  std::array<std::byte, crypto_secretstream_xchacha20poly1305_HEADERBYTES> header_{};
};

}  // namespace verbatim::detail
