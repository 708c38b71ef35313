// Controls of the verbs library in memory beyond the interface of libibverbs. Tests find them with
// dlsym in the library that they opened.
//
// Its devices come from a file, in JSON, that FAKE_VERBS names (or fake_verbs_reset):
//
//   {"devices": [{"name": "fake0", "guid": 17, "queue_pairs": 1024, "work_requests": 4096,
//                 "completions": 65536, "regions": 65536, "inlined": 64,
//                 "dma_buf": true, "relaxed_ordering": true,
//                 "ports": [{"state": "active", "link": "ethernet", "mtu": 4096, "mbit": 100000,
//                            "lid": 0, "message": 1073741824,
//                            "gids": [{"gid": "::ffff:10.0.0.1", "type": "v2", "interface": "lo"}]
//                          }]}],
//    "network": "/tmp/folder", "chances": {"lose": 1}, "copy_on_fork": true}
//
// All keys but "devices" have defaults. "chances": as FakeVerbsChances; FAKE_VERBS_SEED seeds them.
// "network": a folder that processes share; queue pairs find each other there. Without it, those of
// this process find each other, and time is the number of steps: a seed then decides all that
// happens, and each poll of a completion queue makes a step. "copy_on_fork": false is a kernel
// before 5.12, where a process with registered memory must not fork without ibv_fork_init.
#pragma once

#include <cstdint>

extern "C" {

/// Forgets all and starts with the devices of the JSON text `devices`. No object may be left.
/// `seed` decides what happens when, within what the standard allows; 0: everything at once, in
/// order.
using FakeVerbsReset = void (*)(const char* devices, std::uint64_t seed);

/// Chances that a seed has, each in a thousand steps or works. All 0 at first.
struct FakeVerbsChances {
  std::uint32_t fail_work = 0;          ///< a work ends with an error of its own, at random
  std::uint32_t lose = 0;               ///< a message or its answer is lost, and sent again
  std::uint32_t fail_registration = 0;  ///< registering memory: ENOMEM
  std::uint32_t port_flap = 0;          ///< a port goes down, or comes back
  std::uint32_t overrun = 0;            ///< a completion queue breaks
  std::uint32_t damage = 0;             ///< one byte of a write lands wrong, and nobody says so
};
using FakeVerbsSetChances = void (*)(const FakeVerbsChances* chances);

/// A port goes down, or comes back; devices report it.
using FakeVerbsSetPort = void (*)(const char* device, int port, int active);
/// Packets of this port get lost, but nothing reports it: a dead switch.
using FakeVerbsSetCut = void (*)(const char* device, int port, int cut);
/// Replaces an entry of the GID table; "::" removes it. Reported as a change.
using FakeVerbsSetGid = void (*)(const char* device, int port, int index, const char* gid,
                                 const char* type);
/// The device is gone: every work on it is flushed, every call fails, and it is reported.
using FakeVerbsRemove = void (*)(const char* device);

/// Makes a number of steps; returns how many of them found something to do.
using FakeVerbsStep = int (*)(int steps);

/// How many objects of a kind were not destroyed: "contexts", "domains", "regions", "channels",
/// "completion queues", "queue pairs", or * for all.
using FakeVerbsLive = long (*)(const char* kind);
/// How often something happened since the start: "packets", "retries", "writes", "bytes", "reads",
/// "flaps", "damages", "errors", "device_reads" (of memory of GPUs). -1 for any other word.
using FakeVerbsCount = long (*)(const char* what);
}
