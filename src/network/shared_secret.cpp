// SPDX-License-Identifier: MIT OR Apache-2.0
// Each side sends a random number, and then a proof that follows from both numbers and the secret.
//
//      key of the sender = BLAKE2b(secret, "verbatim meet 1", its number, the other's number)
//      proof             = BLAKE2b(that key, "proof")
//
// The order of the numbers makes the keys of the two directions differ. Equal numbers are refused:
// otherwise a peer could send our own number and proof back to us, and pass without the secret.
// After that, each direction carries its records in a secretstream of libsodium.
#include "verbatim/network/shared_secret.hpp"

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "network/sodium.hpp"
#include "verbatim/channel/admission.hpp"

namespace verbatim {
namespace detail {
namespace {

constexpr std::string_view kLabel = "verbatim meet 1";
constexpr std::string_view kProof = "proof";

using Word = std::array<std::byte, 32>;

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span{text});
}

Error refused(const char* field) noexcept {
  return {.code = Errc::permission_denied, .operation = "shared secret", .field = field};
}

class SecretAuthenticator final : public Authenticator {
 public:
  explicit SecretAuthenticator(const Secret& secret) : secret_(secret) {
    prepare_sodium();
    randombytes_buf(ours_.data(), ours_.size());
  }
  SecretAuthenticator(const SecretAuthenticator&) = delete;
  SecretAuthenticator& operator=(const SecretAuthenticator&) = delete;
  ~SecretAuthenticator() override {
    sodium_memzero(our_key_.data(), our_key_.size());
    sodium_memzero(their_key_.data(), their_key_.size());
    sodium_memzero(&push_, sizeof push_);
    sodium_memzero(&pull_, sizeof pull_);
  }

  Result<Answer> step(std::span<const std::byte> heard) override {
    switch (round_++) {
      case 0: return Answer{{ours_.begin(), ours_.end()}, false};
      case 1: return prove(heard);
      case 2: return believe(heard);
      default: return Answer{{}, true};
    }
  }

  Result<std::vector<std::byte>> seal(std::span<const std::byte> record) override {
    std::vector<std::byte> sealed;
    if (!has_pushed_) {
      sealed.resize(crypto_secretstream_xchacha20poly1305_HEADERBYTES);
      crypto_secretstream_xchacha20poly1305_init_push(&push_, to_sodium(sealed.data()),
                                                      to_sodium(our_key_.data()));
      has_pushed_ = true;
    }
    const std::size_t begin = sealed.size();
    sealed.resize(begin + record.size() + crypto_secretstream_xchacha20poly1305_ABYTES);
    crypto_secretstream_xchacha20poly1305_push(&push_, to_sodium(sealed.data() + begin), nullptr,
                                               to_sodium(record.data()), record.size(), nullptr, 0,
                                               0);
    return sealed;
  }

  Result<std::vector<std::byte>> open(std::span<const std::byte> sealed) override {
    if (!has_pulled_) {
      constexpr std::size_t kHeader = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
      if (sealed.size() < kHeader) return std::unexpected(refused("record"));
      crypto_secretstream_xchacha20poly1305_init_pull(&pull_, to_sodium(sealed.data()),
                                                      to_sodium(their_key_.data()));
      sealed = sealed.subspan(kHeader);
      has_pulled_ = true;
    }
    constexpr std::size_t kOverhead = crypto_secretstream_xchacha20poly1305_ABYTES;
    if (sealed.size() < kOverhead) return std::unexpected(refused("record"));
    std::vector<std::byte> record(sealed.size() - kOverhead);
    unsigned char tag = 0;
    if (crypto_secretstream_xchacha20poly1305_pull(&pull_, to_sodium(record.data()), nullptr, &tag,
                                                   to_sodium(sealed.data()), sealed.size(), nullptr,
                                                   0) != 0)
      return std::unexpected(refused("record"));
    return record;
  }

 private:
  Result<Answer> prove(std::span<const std::byte> theirs) {
    if (theirs.size() != ours_.size()) return std::unexpected(refused("number"));
    if (sodium_memcmp(theirs.data(), ours_.data(), ours_.size()) == 0)
      return std::unexpected(refused("number: our own"));
    our_key_ = keyed_hash<32>(secret_.bytes(), {bytes_of(kLabel), ours_, theirs});
    their_key_ = keyed_hash<32>(secret_.bytes(), {bytes_of(kLabel), theirs, ours_});
    const Word proof = keyed_hash<32>(our_key_, {bytes_of(kProof)});
    return Answer{{proof.begin(), proof.end()}, false};
  }

  Result<Answer> believe(std::span<const std::byte> proof) {
    const Word expected = keyed_hash<32>(their_key_, {bytes_of(kProof)});
    if (proof.size() != expected.size() ||
        sodium_memcmp(proof.data(), expected.data(), expected.size()) != 0)
      return std::unexpected(refused("proof"));
    return Answer{{}, true};
  }

  const Secret secret_;
  int round_ = 0;
  Word ours_{};
  Word our_key_{};
  Word their_key_{};
  bool has_pushed_ = false;
  bool has_pulled_ = false;
  crypto_secretstream_xchacha20poly1305_state push_{};
  crypto_secretstream_xchacha20poly1305_state pull_{};
};

}  // namespace
}  // namespace detail

AdmitPeer admit_by_secret(const Secret& secret) {
  return [secret](const Peer&) -> Result<std::unique_ptr<Authenticator>> {
    return std::make_unique<detail::SecretAuthenticator>(secret);
  };
}

}  // namespace verbatim
