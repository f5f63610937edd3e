// SPDX-License-Identifier: Apache-2.0
/// @file host_device.h
/// Marks functions that run on the host and on a device.
#pragma once

#ifdef __CUDACC__
#define CINCH_HOST_DEVICE __host__ __device__
#else
#define CINCH_HOST_DEVICE
#endif
