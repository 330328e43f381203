# SPDX-License-Identifier: MIT OR Apache-2.0
# Every public header, by layer, from the bottom up.

set(base
  annotations check dma_model error error_guide explain flags ids language log required sanitizers
  try work_status)
set(provider provider soft system)
set(verbs
  access address_handle batch buffer completion completion_channel completion_queue context device
  detail/access detail/encode detail/returned_blocks elements endpoint events gid memory_region
  negotiate numa port protection_domain queue_pair queue_pair_options remote_memory
  shared_receive_queue shared_region timers transition unsafe work work_error)
set(channel
  admission canceller channel channel_options deadline detail/batch detail/closure_frame
  detail/event_source detail/file_descriptor detail/flight detail/last_result detail/one_thread
  detail/owned_post detail/same_build detail/scope_run detail/slots detail/timer detail/waiters
  incoming owned_operations owner pending prepared_channel rendezvous scope scope_error unsafe)
set(reactor async_scope await close detail/frame_pool detail/pool_awaiter pool reactor region_cache
  task when_all)
# Not in verbatim.hpp: each needs another library.
set(integration asio detail/asio_loop detail/asio_operation)
set(multi bulk_error detail/bulk detail/peer_list multi_channel peer peer_scope pending_bulk)
set(soft fault_plan inspect soft_device)

set(include_dir "${PROJECT_SOURCE_DIR}/include")
set(headers "${include_dir}/verbatim/verbatim.hpp")
foreach(layer base provider verbs channel reactor integration multi soft)
  foreach(name ${${layer}})
    list(APPEND headers "${include_dir}/verbatim/${layer}/${name}.hpp")
  endforeach()
endforeach()
