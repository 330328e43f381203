// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/network/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "network/sodium.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kDigits = 2 * Secret::kBytes;

Error wrong_file(const char* operation, int os_error) noexcept {
  Error error = os_failure(operation, os_error);
  error.field = "file of the secret";
  return error;
}

/// Wiped on destruction.
struct FileText {
  std::array<char, kDigits + 2> digits{};
  std::size_t size = 0;
  ~FileText() { sodium_memzero(digits.data(), digits.size()); }
};

Result<void> read_private_file(const char* path, FileText& text) {
  // O_NONBLOCK: a named pipe at this path must not block us.
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return std::unexpected(wrong_file("open", errno));
  struct stat status{};
  const bool known = fstat(fd, &status) == 0;
  const bool file = known && S_ISREG(status.st_mode);
  const bool ours = known && status.st_uid == geteuid() && (status.st_mode & 077) == 0;
  ssize_t got = 0;
  while (file && ours && text.size < text.digits.size() &&
         (got = read(fd, text.digits.data() + text.size, text.digits.size() - text.size)) > 0)
    text.size += static_cast<std::size_t>(got);
  ::close(fd);
  if (!file)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "Secret::from_file",
                                 .field = "file of the secret"});
  if (!ours)
    return std::unexpected(Error{.code = Errc::permission_denied,
                                 .operation = "Secret::from_file",
                                 .field = "mode of the file",
                                 .value = status.st_mode & 0777,
                                 .limit = 0600});
  if (got < 0) return std::unexpected(wrong_file("read", EIO));
  return {};
}

}  // namespace

Secret Secret::random() {
  detail::prepare_sodium();
  Secret made;
  randombytes_buf(made.bytes_.data(), kBytes);
  return made;
}

Result<Secret> Secret::from_hex(std::string_view digits) {
  detail::prepare_sodium();
  Secret made;
  std::size_t size = 0;
  const char* end = nullptr;
  const bool parsed = digits.size() == kDigits &&
                      sodium_hex2bin(detail::to_sodium(made.bytes_.data()), kBytes, digits.data(),
                                     digits.size(), nullptr, &size, &end) == 0;
  if (!parsed || size != kBytes || end != digits.data() + digits.size())
    return std::unexpected(Error{.code = Errc::malformed,
                                 .operation = "Secret::from_hex",
                                 .field = "hexadecimal digits of the secret",
                                 .value = digits.size(),
                                 .limit = kDigits});
  return made;
}

Result<Secret> Secret::from_file(const std::filesystem::path& file) {
  FileText text;
  if (auto read = read_private_file(file.c_str(), text); !read)
    return std::unexpected(read.error().with_text(file.filename().string()));
  std::string_view digits{text.digits.data(), text.size};
  if (digits.ends_with('\n')) digits.remove_suffix(1);
  return from_hex(digits);
}

Secret::~Secret() { sodium_memzero(bytes_.data(), bytes_.size()); }

std::string Secret::to_hex() const {
  std::string digits(kDigits + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), detail::to_sodium(bytes_.data()), kBytes);
  digits.pop_back();
  return digits;
}

bool operator==(const Secret& left, const Secret& right) noexcept {
  return sodium_memcmp(left.bytes_.data(), right.bytes_.data(), Secret::kBytes) == 0;
}

}  // namespace verbatim
