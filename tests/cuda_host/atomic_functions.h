#pragma once

#include <type_traits>

/// CUDA's atomic functions: one fiber runs at a time, and none stops within them.
namespace scramjet::cuda_host {

template <typename T, typename Change>
T exchange(T* address, const Change& change) {
  const T old = *address;
  *address = static_cast<T>(change(old));
  return old;
}

}  // namespace scramjet::cuda_host

template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T old) { return old + value; });
}
template <typename T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T old) { return old - value; });
}
template <typename T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T /*old*/) { return value; });
}
template <typename T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T old) { return old < value ? value : old; });
}
template <typename T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T old) { return value < old ? value : old; });
}
template <typename T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address,
                                       [&](T old) { return old == compare ? value : old; });
}
template <typename T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T old) { return old & value; });
}
template <typename T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T old) { return old | value; });
}
template <typename T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return scramjet::cuda_host::exchange(address, [&](T old) { return old ^ value; });
}
/// Counts up to `limit`, then from 0 again.
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return scramjet::cuda_host::exchange(address,
                                       [&](unsigned old) { return old >= limit ? 0 : old + 1; });
}
/// Counts down from `limit` to 0, then from `limit` again.
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return scramjet::cuda_host::exchange(
      address, [&](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
