// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a process learns which rank of a job it is, and where the job's coordinator listens.
///
/// There are four ways; manual/guide/starting.md has a section for each. All of them give the same
/// kind of Identity. From there on everything is the same: Exchanger::join(identity), or
/// Node::join. Any thread; pmix() only one at a time.
#include <optional>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/network/identity.hpp"
#include "verbatim/network/network_config.hpp"
#include "verbatim/network/secret.hpp"

namespace verbatim {

struct ConfigOptions {
  /// Default: that of the environment (VERBATIM_SECRET or VERBATIM_SECRET_FILE), if there is one.
  std::optional<Secret> secret = {};
  /// Where rank 0 listens, if not at its hostname and port: for example "0.0.0.0:7000", if that
  /// name does not belong to this machine (NAT, containers). Other ranks ignore it.
  std::string listen = {};
  std::string job = "verbatim";  ///< The same at every rank.
};

struct Bootstrap {
  /// What `verbatim run` or your own launcher sets:
  ///   VERBATIM_RANK, VERBATIM_WORLD   this rank, and the number of ranks
  ///   VERBATIM_COORDINATOR            "host:port", or several, separated by commas
  ///   VERBATIM_SECRET                 64 hexadecimal digits, or
  ///   VERBATIM_SECRET_FILE            a file that has them, and that only its owner may read
  ///   VERBATIM_JOB                    a name; default "verbatim"
  /// `not_found` if none of them is set. Otherwise the first that is missing or wrong is an
  /// `invalid_argument` with its name. Without a secret the coordinator must be on loopback, else
  /// it is `permission_denied`.
  [[nodiscard]] static Result<Identity> environment();

  /// Under mpirun, srun and other launchers that provide PMIx. Rank 0 opens a coordinator on all
  /// addresses of its machine and publishes them, with a random secret, through PMIx. Collective:
  /// returns when every rank of the job has called it. `not_found` if there is no PMIx server or no
  /// libpmix.so.2. The last copy of the Identity ends the use of PMIx (PMIx_Finalize): keep it
  /// until the process has left the job; a Node does.
  [[nodiscard]] static Result<Identity> pmix(Timeout timeout);

  /// A rank from a file. Rank 0 coordinates: its Identity holds the open Coordinator. The device is
  /// the file's `ibdev`. A rank that is not in the file, or a rank 0 without hostname or port, is
  /// `invalid_argument`. A coordinator beyond loopback without a secret is `permission_denied`.
  [[nodiscard]] static Result<Identity> config(const NetworkConfig& network, Rank rank,
                                               const ConfigOptions& options = {});

  /// All ranks in this process, for tests and for threads that may become processes one day. By
  /// rank; all of them share one Coordinator.
  [[nodiscard]] static Result<std::vector<Identity>> in_process(Rank world);

  /// environment(), or pmix() if nothing is set there. If neither works: `not_found`, with
  /// everything that was looked for. If a variable is set but wrong, it is an error, and PMIx is
  /// not tried.
  [[nodiscard]] static Result<Identity> find(Timeout timeout);
};

}  // namespace verbatim
