// SPDX-License-Identifier: MIT OR Apache-2.0
// Uses five functions of libpmix, and none of its macros, because many of them call more functions.
// Calls that wait for other processes use the variant with a callback, because only that lets us
// limit the time.
#include "network/pmix.hpp"

#include <dlfcn.h>
#include <pmix.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/environment.hpp"
#include "base/library_thread.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";
constexpr const char* kKey = "verbatim.coordinator";

struct Functions {
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Get_nb) get = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;
  bool complete = false;
};

template <class Function>
bool look_up(void* library, const char* name, Function& to) noexcept {
  to = reinterpret_cast<Function>(dlsym(library, name));
  return to != nullptr;
}

Functions load() noexcept {
  Functions found;
  // Never unloaded, because the library has its own thread.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  found.complete = library != nullptr && look_up(library, "PMIx_Init", found.init) &&
                   look_up(library, "PMIx_Put", found.put) &&
                   look_up(library, "PMIx_Commit", found.commit) &&
                   look_up(library, "PMIx_Get_nb", found.get) &&
                   look_up(library, "PMIx_Finalize", found.finalize);
  return found;
}

const Functions& functions() noexcept {
  static const Functions loaded = load();
  return loaded;
}

constexpr std::int64_t kNotThere = -std::int64_t{PMIX_ERR_NOT_FOUND};
constexpr auto kAskAgain = std::chrono::milliseconds{5};

Error failure(const char* operation, pmix_status_t status) noexcept {
  const auto code = status == PMIX_ERR_TIMEOUT   ? Errc::timed_out
                    : status == PMIX_ERR_UNREACH ? Errc::not_found
                                                 : Errc::driver;
  return {.code = code,
          .operation = operation,
          .field = "PMIx error",
          .value = static_cast<std::uint64_t>(-static_cast<std::int64_t>(status))};
}

/// The result of a callback. Shared with the callback, which may come after its caller has given
/// up.
class Answer {
 public:
  void set(pmix_status_t status, const pmix_value_t* value) {
    const std::lock_guard lock{mutex_};
    status_ = status;
    if (value != nullptr && value->type == PMIX_UINT32) number_ = value->data.uint32;
    if (value != nullptr && value->type == PMIX_STRING && value->data.string != nullptr)
      text_ = value->data.string;
    here_ = true;
    came_.notify_one();
  }
  [[nodiscard]] Result<void> wait(const char* operation, PmixClient::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    if (!came_.wait_until(lock, deadline, [this] { return here_; }))
      return std::unexpected(Error{.code = Errc::timed_out, .operation = operation});
    if (status_ != PMIX_SUCCESS) return std::unexpected(failure(operation, status_));
    return {};
  }
  /// Valid after a wait() that succeeded.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::string& text() noexcept { return text_; }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  bool here_ = false;
  pmix_status_t status_ = PMIX_SUCCESS;
  std::uint32_t number_ = 0;
  std::string text_;
};
using SharedAnswer = std::shared_ptr<Answer>;

void on_value(pmix_status_t status, pmix_value_t* value, void* data) {
  const std::unique_ptr<SharedAnswer> answer{static_cast<SharedAnswer*>(data)};
  (*answer)->set(status, value);
}

pmix_proc_t process(const std::string& job, pmix_rank_t rank) noexcept {
  pmix_proc_t result{};
  job.copy(result.nspace, sizeof result.nspace - 1);
  result.rank = rank;
  return result;
}

Result<SharedAnswer> get(const std::string& job, pmix_rank_t rank, const char* key,
                         PmixClient::Clock::time_point deadline) {
  constexpr const char* kOperation = "PMIx_Get";
  const pmix_proc_t whose = process(job, rank);
  auto answer = std::make_shared<Answer>();
  auto* const data = new SharedAnswer{answer};  // The callback's, if one will come.
  const pmix_status_t status = functions().get(&whose, key, nullptr, 0, on_value, data);
  if (status != PMIX_SUCCESS) {
    delete data;
    return std::unexpected(failure(kOperation, status));
  }
  VERBATIM_TRY(answer->wait(kOperation, deadline));
  return answer;
}

}  // namespace

PmixClient::PmixClient(Rank rank, std::string job) noexcept
    : rank_(rank), job_(std::move(job)), owner_(getpid()) {}

Result<std::shared_ptr<PmixClient>> PmixClient::open(Clock::time_point deadline) {
  Error none{.code = Errc::not_found, .operation = "PMIx_Init"};
  // Without a server, the library would make up a job with only this process.
  none.field = "PMIX_NAMESPACE (a PMIx server sets it)";
  if (environment("PMIX_NAMESPACE") == nullptr) return std::unexpected(none);
  none.field = "library";
  if (!functions().complete) return std::unexpected(none.with_text(kLibrary));

  pmix_proc_t self{};
  pmix_status_t status = PMIX_SUCCESS;
  {
    const SignalsBlocked of_its_thread;
    status = functions().init(&self, nullptr, 0);
  }
  if (status != PMIX_SUCCESS) return std::unexpected(failure("PMIx_Init", status));
  const std::string job{self.nspace, strnlen(self.nspace, sizeof self.nspace)};
  std::shared_ptr<PmixClient> client{new PmixClient{self.rank, job}};
  const auto size = VERBATIM_TRY(get(job, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, deadline));
  client->world_ = size->number();
  if (client->rank_ >= client->world_)
    return std::unexpected(Error{.code = Errc::malformed,
                                 .operation = "PMIx_Init",
                                 .field = "rank",
                                 .value = client->rank_,
                                 .limit = client->world_});
  return client;
}

PmixClient::~PmixClient() {
  if (getpid() == owner_) functions().finalize(nullptr, 0);
}

Result<void> PmixClient::publish(std::string text) {
  pmix_value_t value{};
  value.type = PMIX_STRING;
  value.data.string = text.data();  // The call copies it.
  if (const auto status = functions().put(PMIX_GLOBAL, kKey, &value); status != PMIX_SUCCESS)
    return std::unexpected(failure("PMIx_Put", status));
  if (const auto status = functions().commit(); status != PMIX_SUCCESS)
    return std::unexpected(failure("PMIx_Commit", status));
  return {};
}

Result<std::string> PmixClient::fetch(Rank rank, Clock::time_point deadline) {
  for (;;) {
    const auto answer = get(job_, rank, kKey, deadline);
    if (answer) return std::move((*answer)->text());
    // Most servers wait for a value that is not published yet. Some answer that it does not exist.
    const bool is_not_there = answer.error() == Errc::driver &&
                              answer.error().value == static_cast<std::uint64_t>(kNotThere);
    if (!is_not_there) return std::unexpected(answer.error());
    const auto now = Clock::now();
    if (now >= deadline)
      return std::unexpected(Error{.code = Errc::timed_out, .operation = "PMIx_Get"});
    std::this_thread::sleep_for(std::min<Clock::duration>(kAskAgain, deadline - now));
  }
}

}  // namespace verbatim::detail
