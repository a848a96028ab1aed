// In place of Warp's header of the same name, on the CPU: kernels here need nothing of it.
#pragma once
