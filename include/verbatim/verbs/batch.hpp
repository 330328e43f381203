// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Many requests, one doorbell.
///
/// A batch copies the elements of a request, not the memory they name. The contract of unsafe.hpp
/// holds for all requests. The device takes a prefix of the list. On a failure the caller learns
/// how many requests the device took; those will complete.
///
/// Hot path: no allocation; storage is part of the object, sized by its template arguments.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::unsafe {

struct [[nodiscard]] Posted {
  std::size_t accepted = 0;      ///< This many requests, from the first, are in flight.
  std::optional<Error> error{};  ///< Why the next one was not taken; empty if all were taken.
  [[nodiscard]] explicit operator bool() const noexcept { return !error; }
};

/// Requests for one kind of queue: `Request` is ibv_send_wr or ibv_recv_wr.
template <class Request, std::size_t Capacity, std::size_t ElementsPerRequest>
class RequestList {
  static_assert(Capacity > 0 && ElementsPerRequest > 0);

 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] static constexpr std::size_t capacity() noexcept { return Capacity; }
  void clear() noexcept { size_ = widest_ = 0; }

 protected:
  /// Copies the elements that `work` encodes to, so that the request may outlive `work`.
  template <class Work>
  [[nodiscard]] Result<void> append(const Work& work, std::size_t elements, WrId id,
                                    Signal signal = Signal::completion) noexcept {
    if (size_ == Capacity)
      return std::unexpected(Error{.code = Errc::limit_exceeded,
                                   .operation = "batch.add",
                                   .field = "requests",
                                   .value = size_ + 1,
                                   .limit = Capacity});
    if (elements > ElementsPerRequest)
      return std::unexpected(detail::too_many_elements(elements, ElementsPerRequest));
    Request& request = requests_[size_];
    detail::encode_into(request, work, std::to_underlying(signal));
    request.next = nullptr;
    auto& copies = elements_[size_];
    for (std::size_t i = 0; i < elements; ++i) copies[i] = request.sg_list[i];
    request.sg_list = copies.data();
    request.wr_id = std::to_underlying(id);
    if (size_ > 0) requests_[size_ - 1].next = &request;
    ++size_;
    widest_ = std::max(widest_, elements);
    return {};
  }

  /// Posts all requests and empties the list.
  template <class Queue>
  Posted submit(Queue* queue, const char* operation) noexcept {
    if (size_ == 0) return {};
    Request* rejected = nullptr;
    const std::size_t count = std::exchange(size_, 0);
    widest_ = 0;
    const int failed = detail::call(queue, requests_.data(), &rejected);
    if (failed == 0) [[likely]]
      return {.accepted = count};
    // If the driver fails without naming a request, it took none.
    const std::size_t accepted =
        rejected != nullptr ? static_cast<std::size_t>(rejected - requests_.data()) : 0;
    return {accepted, detail::post_failed(queue->context, operation, failed)};
  }

  [[nodiscard]] bool fits(std::size_t max_elements) const noexcept {
    return widest_ <= max_elements;
  }
  /// submit() for a list that does not fit the queue. The requests before the first one that is too
  /// wide are posted; that request is refused as if by the device, but with the reason.
  template <class Queue>
  VERBATIM_COLD Posted submit_narrow(Queue* queue, const char* operation,
                                     std::size_t max_elements) noexcept {
    std::size_t narrow = 0;
    const auto width = [&](std::size_t at) {
      return static_cast<std::size_t>(requests_[at].num_sge);
    };
    while (width(narrow) <= max_elements) ++narrow;
    const Error refusal = detail::too_many_elements(width(narrow), max_elements);
    size_ = narrow;
    if (narrow > 0) requests_[narrow - 1].next = nullptr;
    const Posted posted = submit(queue, operation);
    widest_ = 0;  // Also if nothing precedes it, and submit() did nothing.
    return posted ? Posted{posted.accepted, refusal} : posted;
  }

 private:
  std::size_t size_ = 0;
  std::size_t widest_ = 0;  ///< Elements of the widest request.
  std::array<Request, Capacity> requests_;
  std::array<std::array<ibv_sge, ElementsPerRequest>, Capacity> elements_;
};

/// Sends, writes, reads and atomics, in any mix. Use it from one thread. It cannot be moved,
/// because requests point into it.
template <std::size_t Capacity, std::size_t ElementsPerRequest = 4>
class SendBatch : public RequestList<ibv_send_wr, Capacity, ElementsPerRequest> {
 public:
  explicit SendBatch(QueuePair& queue_pair) noexcept : queue_pair_(queue_pair) {}
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  template <SendWork Work>
  [[nodiscard]] Result<void> add(const Work& work, WrId id,
                                 Signal signal = Signal::completion) noexcept {
    const detail::PostLimits& limits = detail::Raw::limits(queue_pair_);
    const detail::PostShape shape = detail::shape(work, work.options);
    if (!detail::accepts(limits, shape, limits.end_of_message)) [[unlikely]]
      return std::unexpected(detail::refused(limits, shape));
    return this->append(work, shape.elements, id, signal);
  }
  Posted post() noexcept { return this->submit(detail::Raw::of(queue_pair_), detail::kPostSend); }

 private:
  QueuePair& queue_pair_;
};

template <std::size_t Capacity, std::size_t ElementsPerRequest = 4>
class ReceiveBatch : public RequestList<ibv_recv_wr, Capacity, ElementsPerRequest> {
 public:
  ReceiveBatch() noexcept = default;
  ReceiveBatch(const ReceiveBatch&) = delete;
  ReceiveBatch& operator=(const ReceiveBatch&) = delete;

  template <std::size_t N>
  [[nodiscard]] Result<void> add(const Receive<N>& work, WrId id) noexcept {
    return this->append(work, work.into.size(), id);
  }
  /// Posts to a queue pair (also before it is connected) or a shared receive queue.
  template <class Queue>
    requires std::same_as<Queue, QueuePair> || std::same_as<Queue, PreparedQueuePair>
  Posted post(Queue& queue_pair) noexcept {
    return submit_fitting(detail::Raw::of(queue_pair), detail::kPostReceive,
                          queue_pair.limits().max_receive_elements);
  }
  Posted post(SharedReceiveQueue& queue) noexcept {
    return submit_fitting(detail::Raw::of(queue), detail::kPostSharedReceive, queue.max_elements());
  }

 private:
  /// The queue, and with it the number of elements that a request may have, is known only now.
  template <class Queue>
  Posted submit_fitting(Queue* queue, const char* operation, std::size_t max_elements) noexcept {
    if (!this->fits(max_elements)) [[unlikely]]
      return this->submit_narrow(queue, operation, max_elements);
    return this->submit(queue, operation);
  }
};

}  // namespace verbatim::unsafe
