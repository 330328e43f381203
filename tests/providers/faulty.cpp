// SPDX-License-Identifier: MIT OR Apache-2.0
#include "faulty.hpp"

#include <cerrno>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbatim/base/check.hpp"

namespace verbatim::faulty {
namespace {

/// How a verb reports a failure.
enum class Failure {
  error_number,  ///< Returns errno.
  minus_one,     ///< Returns -1, and sets errno.
  minus_error,   ///< Returns -errno.
  null_pointer,  ///< Returns null, and sets errno.
  never,         ///< It cannot fail.
};

enum class Purpose { makes, destroys, reads_events };

struct Verb {
  std::string_view name;
  Failure failure = Failure::never;
  Purpose purpose = Purpose::makes;
  std::size_t calls = 0;
};

struct Plan {
  std::string_view verb;  ///< Empty: any.
  std::size_t number;     ///< Of the call that fails, counted like `calls`.
  int error;
};

std::mutex mutex;
Provider inner;
Provider table;
std::vector<Verb*> verbs;
std::size_t counted = 0;
std::optional<Plan> plan;
std::string_view failed;

/// Counts a call. Returns the error with which it has to fail, or 0.
int count(Verb& verb) {
  const std::lock_guard guard{mutex};
  const std::size_t number = verb.calls++;
  if (verb.failure == Failure::never) return 0;
  const bool among_any = verb.purpose != Purpose::reads_events;
  const std::size_t any_number = counted;
  if (among_any) ++counted;
  if (!plan) return 0;
  const bool due = plan->verb.empty() ? among_any && any_number == plan->number
                                      : plan->verb == verb.name && number == plan->number;
  if (!due) return 0;
  failed = verb.name;
  const int error = plan->error;
  plan.reset();
  return error;
}

template <class R>
R fail(Failure failure, int error) {
  errno = error;
  if constexpr (std::is_pointer_v<R>) return nullptr;
  if constexpr (std::is_integral_v<R>) {
    if (failure == Failure::minus_one) return static_cast<R>(-1);
    return static_cast<R>(failure == Failure::minus_error ? -error : error);
  }
}

/// The function that replaces a verb in the table.
template <auto Member>
struct Wrapper;

template <class R, class... Args, R (*Provider::*Member)(Args...)>
struct Wrapper<Member> {
  static inline Verb verb;

  static R call(Args... args) {
    const int error = count(verb);
    if constexpr (std::is_pointer_v<R> || std::is_integral_v<R>) {
      if (error != 0) {
        if (verb.purpose == Purpose::destroys) (inner.*Member)(args...);
        return fail<R>(verb.failure, error);
      }
    }
    return (inner.*Member)(args...);
  }

  static void put(std::string_view name, Failure failure, Purpose purpose) {
    verb = {name, failure, purpose};
    verbs.push_back(&verb);
    table.*Member = &call;
  }
};

template <auto Member>
void wrap(std::string_view name, Failure failure, Purpose purpose = Purpose::makes) {
  Wrapper<Member>::put(name, failure, purpose);
}

void wrap_devices() {
  wrap<&Provider::get_device_list>("get_device_list", Failure::null_pointer);
  wrap<&Provider::free_device_list>("free_device_list", Failure::never);
  wrap<&Provider::open_device>("open_device", Failure::null_pointer);
  wrap<&Provider::close_device>("close_device", Failure::minus_one, Purpose::destroys);
  wrap<&Provider::query_device>("query_device", Failure::error_number);
  wrap<&Provider::query_port>("query_port", Failure::error_number);
  wrap<&Provider::query_gid_table>("query_gid_table", Failure::minus_error);
  wrap<&Provider::query_pkey>("query_pkey", Failure::minus_one);
  wrap<&Provider::get_async_event>("get_async_event", Failure::minus_one, Purpose::reads_events);
  wrap<&Provider::ack_async_event>("ack_async_event", Failure::never);
}

void wrap_memory() {
  wrap<&Provider::alloc_memory>("alloc_memory", Failure::null_pointer);
  wrap<&Provider::free_memory>("free_memory", Failure::error_number, Purpose::destroys);
  wrap<&Provider::alloc_pd>("alloc_pd", Failure::null_pointer);
  wrap<&Provider::dealloc_pd>("dealloc_pd", Failure::error_number, Purpose::destroys);
  wrap<&Provider::reg_mr>("reg_mr", Failure::null_pointer);
  wrap<&Provider::reg_dmabuf_mr>("reg_dmabuf_mr", Failure::null_pointer);
  wrap<&Provider::rereg_mr>("rereg_mr", Failure::minus_one);
  wrap<&Provider::dereg_mr>("dereg_mr", Failure::error_number, Purpose::destroys);
  wrap<&Provider::create_ah>("create_ah", Failure::null_pointer);
  wrap<&Provider::destroy_ah>("destroy_ah", Failure::error_number, Purpose::destroys);
}

void wrap_completions() {
  wrap<&Provider::create_comp_channel>("create_comp_channel", Failure::null_pointer);
  wrap<&Provider::destroy_comp_channel>("destroy_comp_channel", Failure::error_number,
                                        Purpose::destroys);
  wrap<&Provider::get_cq_event>("get_cq_event", Failure::minus_one);
  wrap<&Provider::ack_cq_events>("ack_cq_events", Failure::never);
  wrap<&Provider::create_cq>("create_cq", Failure::null_pointer);
  wrap<&Provider::resize_cq>("resize_cq", Failure::error_number);
  wrap<&Provider::destroy_cq>("destroy_cq", Failure::error_number, Purpose::destroys);
}

void wrap_queues() {
  wrap<&Provider::create_qp>("create_qp", Failure::null_pointer);
  wrap<&Provider::modify_qp>("modify_qp", Failure::error_number);
  wrap<&Provider::query_qp>("query_qp", Failure::error_number);
  wrap<&Provider::destroy_qp>("destroy_qp", Failure::error_number, Purpose::destroys);
  wrap<&Provider::create_srq>("create_srq", Failure::null_pointer);
  wrap<&Provider::modify_srq>("modify_srq", Failure::error_number);
  wrap<&Provider::query_srq>("query_srq", Failure::error_number);
  wrap<&Provider::destroy_srq>("destroy_srq", Failure::error_number, Purpose::destroys);
}

Verb& find(std::string_view name) {
  for (Verb* const each : verbs)
    if (each->name == name) return *each;
  check(false, "faulty: no verb of that name");
  std::unreachable();
}

}  // namespace

const Provider& install(const Provider& other) {
  const std::lock_guard guard{mutex};
  inner = table = other;
  table.name = "faulty";
  verbs.clear();
  counted = 0;
  plan.reset();
  failed = "";
  wrap_devices();
  wrap_memory();
  wrap_completions();
  wrap_queues();
  return table;
}

void fail_call(std::string_view verb, std::size_t number, int error) {
  const std::lock_guard guard{mutex};
  const Verb& found = find(verb);
  check(found.failure != Failure::never, "faulty: this verb cannot fail");
  plan = Plan{found.name, found.calls + number, error};
  failed = "";
}

void fail_any(std::size_t number, int error) {
  const std::lock_guard guard{mutex};
  plan = Plan{"", counted + number, error};
  failed = "";
}

void reset() {
  const std::lock_guard guard{mutex};
  for (Verb* const each : verbs) each->calls = 0;
  counted = 0;
  plan.reset();
  failed = "";
}

std::size_t calls(std::string_view verb) {
  const std::lock_guard guard{mutex};
  return find(verb).calls;
}

std::size_t calls() {
  const std::lock_guard guard{mutex};
  return counted;
}

std::string_view failed_verb() {
  const std::lock_guard guard{mutex};
  return failed;
}

}  // namespace verbatim::faulty
