// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbs/life_log.hpp"

#include <cstdarg>
#include <cstdio>
#include <utility>

#include "verbatim/base/log.hpp"

namespace verbatim::detail {
namespace {

[[gnu::format(printf, 1, 2)]] ObjectName print(const char* format, ...) noexcept {
  ObjectName name;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(name.text.data(), name.text.size(), format, arguments);
  va_end(arguments);
  return name;
}

}  // namespace

ObjectName name_of_queue_pair(QpNumber number, const ibv_context* context) noexcept {
  return print("queue pair 0x%06x on %s", std::to_underlying(number), context->device->name);
}
ObjectName name_of_object(const ibv_qp* raw) noexcept {
  return name_of_queue_pair(QpNumber{raw->qp_num}, raw->context);
}
ObjectName name_of_object(const ibv_cq* raw) noexcept {
  return print("completion queue %u on %s", raw->handle, raw->context->device->name);
}
ObjectName name_of_object(const ibv_srq* raw) noexcept {
  return print("shared receive queue %u on %s", raw->handle, raw->context->device->name);
}
ObjectName name_of_object(const ibv_mr* raw) noexcept {
  return print("memory region %u on %s (%zu bytes)", raw->handle, raw->context->device->name,
               raw->length);
}
ObjectName name_of_object(const ibv_pd* raw) noexcept {
  return print("protection domain %u on %s", raw->handle, raw->context->device->name);
}
ObjectName name_of_object(const ibv_ah* raw) noexcept {
  return print("address handle %u on %s", raw->handle, raw->context->device->name);
}
ObjectName name_of_object(const ibv_comp_channel* raw) noexcept {
  return print("completion channel %d on %s", raw->fd, raw->context->device->name);
}
ObjectName name_of_object(const ibv_context* raw) noexcept {
  return print("device %s", raw->device->name);
}

void log_life(const char* what, const ObjectName& object) noexcept {
  log(LogLevel::debug, print("%s %s", what, object.text.data()).text.data());
}

}  // namespace verbatim::detail
