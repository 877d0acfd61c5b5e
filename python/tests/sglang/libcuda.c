/* Stands for the library of NVIDIA's driver where there is none: every call fails. */
int cuInit(unsigned flags) {
  (void)flags;
  return 100;
}
int cuPointerGetAttribute(void) { return 100; }
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
