/* bcryptprimitives.dll, which came with later Wines: Rust's standard library asks it for random bytes.
   python3.dll begins like this too, and forwards the rest. */
__declspec(dllimport) unsigned char SystemFunction036(void *, unsigned long); /* RtlGenRandom */
int DllMainCRTStartup(void *library, unsigned long reason, void *reserved) { return 1; }
__declspec(dllexport) int ProcessPrng(void *bytes, unsigned long long count) { return SystemFunction036(bytes, count); }
