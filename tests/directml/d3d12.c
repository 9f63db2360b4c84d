/* A d3d12.dll that stands before Wine's own, which lies next to it as wined3d12.dll.

   Wine's ID3D12Device5::EnumerateMetaCommands answers E_NOTIMPL, and DirectML then refuses the
   device. This one answers that there are none, as Windows does. All else is handed on.
*/
#include <windows.h>

typedef HRESULT(WINAPI *Create)(IUnknown *, UINT, const GUID *, void **);
typedef HRESULT(WINAPI *Four)(void *, void *, void *, void *);

static HMODULE loadWines(void) {
    static HMODULE library;
    WCHAR path[MAX_PATH];
    HMODULE self;
    DWORD flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS;
    DWORD length;
    if (library) return library;
    flags |= GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    GetModuleHandleExW(flags, (LPCWSTR)loadWines, &self);
    length = GetModuleFileNameW(self, path, MAX_PATH);
    while (length && path[length - 1] != '\\') length--;
    lstrcpyW(path + length, L"wined3d12.dll");
    library = LoadLibraryW(path);
    return library;
}

static HRESULT WINAPI countNoMetaCommands(void *device, UINT *count, void *descs) {
    *count = 0;
    return S_OK;
}

HRESULT WINAPI p_D3D12CreateDevice(IUnknown *adapter, UINT level, const GUID *iid, void **device) {
    Create create = (Create)(void *)GetProcAddress(loadWines(), "D3D12CreateDevice");
    void **entry;
    DWORD protection;
    HRESULT result;
    if (!create) return E_FAIL;
    result = create(adapter, level, iid, device);
    if (result != S_OK || !device || !*device) return result;
    entry = *(void ***)*device + 59; /* ID3D12Device5::EnumerateMetaCommands */
    VirtualProtect(entry, sizeof *entry, PAGE_READWRITE, &protection);
    *entry = countNoMetaCommands;
    VirtualProtect(entry, sizeof *entry, protection, &protection);
    return result;
}

/* Functions of up to four arguments, in the calling convention of x86-64. */
#define HAND_ON(name)                                                                              \
    HRESULT WINAPI p_##name(void *a, void *b, void *c, void *d) {                                  \
        Four function = (Four)(void *)GetProcAddress(loadWines(), #name);                          \
        return function ? function(a, b, c, d) : E_NOTIMPL;                                        \
    }
HAND_ON(D3D12GetDebugInterface)
HAND_ON(D3D12SerializeRootSignature)
HAND_ON(D3D12SerializeVersionedRootSignature)
HAND_ON(D3D12CreateRootSignatureDeserializer)
HAND_ON(D3D12CreateVersionedRootSignatureDeserializer)
HAND_ON(D3D12EnableExperimentalFeatures)
HAND_ON(D3D12GetInterface)
