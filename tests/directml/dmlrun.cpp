/* dmlrun DIRECTML.DLL JOBS RESULTS: runs jobs of DML_OPERATOR_REVERSE_SUBSEQUENCES in DirectML.

   JOBS has a job in each line, as key=value words:
     id=WORD            the name of the job in RESULTS
     type= lengths=     numbers of DML_TENSOR_DATA_TYPE: of the input and the output, of the lengths
     sizes= lsizes=     sizes of the input and the output, and of the lengths, as 1,2,3
     axis=N
     in= len= out=      files of raw bytes; the last is written
   RESULTS gets a line for each job: its id, the stage that was reached, and the HRESULT of that stage.
*/
#define DML_TARGET_VERSION_USE_LATEST
#define INITGUID
#include <initguid.h>
#include <windows.h>
#ifndef _Maybenull_ // DirectML.h uses it, and mingw's headers lack it
#define _Maybenull_
#endif
#include <directx/d3d12.h>
#include <directx/DirectML.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define IID_OF(name, a, b, c, d, e, f, g, h, i, j, k) \
    static const GUID name = {a, b, c, {d, e, f, g, h, i, j, k}}
IID_OF(iidDevice, 0x6dbd6437, 0x96fd, 0x423f, 0xa9, 0x8c, 0xae, 0x5e, 0x7c, 0x2a, 0x57, 0x3f);
IID_OF(iidOperator, 0x26caae7a, 0x3081, 0x4633, 0x95, 0x81, 0x22, 0x6f, 0xbe, 0x57, 0x69, 0x5d);
IID_OF(iidCompiled, 0x6b15e56a, 0xbf5c, 0x4902, 0x92, 0xd8, 0xda, 0x3a, 0x65, 0x0a, 0xfe, 0xa4);
IID_OF(iidInitializer, 0x427c1113, 0x435c, 0x469c, 0x86, 0x76, 0x4d, 0x5d, 0xd0, 0x72, 0xf8, 0x13);
IID_OF(iidTable, 0x29c687dc, 0xde74, 0x4e3b, 0xab, 0x00, 0x11, 0x68, 0xf2, 0xfc, 0x3c, 0xfc);
IID_OF(iidRecorder, 0xe6857a76, 0x2e3e, 0x4fdd, 0xbf, 0xf4, 0x5d, 0x2b, 0xa1, 0x0f, 0xb4, 0x53);

typedef HRESULT(WINAPI *CreateDml)(ID3D12Device *, DML_CREATE_DEVICE_FLAGS, REFIID, void **);
typedef HRESULT(WINAPI *CreateD3d)(IUnknown *, D3D_FEATURE_LEVEL, REFIID, void **);
typedef std::map<std::string, std::string> Job;
typedef std::vector<IUnknown *> Objects; // what a job has made, to be released

struct Failure {
    const char *stage;
    HRESULT result;
};

static void require(HRESULT result, const char *stage) {
    if (FAILED(result)) throw Failure{stage, result};
}

static ID3D12Device *d3d;
static IDMLDevice *dml;
static ID3D12CommandQueue *queue;
static ID3D12CommandAllocator *allocator;
static ID3D12GraphicsCommandList *list;
static ID3D12Fence *fence;
static HANDLE event;
static UINT64 fenceValue;

/* Wine's D3D12 answers E_NOTIMPL; Windows answers that there are none. DirectML needs the latter. */
static HRESULT STDMETHODCALLTYPE
countNoMetaCommands(ID3D12Device5 *, UINT *count, D3D12_META_COMMAND_DESC *) {
    *count = 0;
    return S_OK;
}

static void replaceMethod(ID3D12Device *device, int index, void *function) {
    void **entry = *(void ***)device + index;
    DWORD protection;
    VirtualProtect(entry, sizeof *entry, PAGE_READWRITE, &protection);
    *entry = function;
    VirtualProtect(entry, sizeof *entry, protection, &protection);
}

/* A method that returns a struct: in Microsoft's convention its address follows `this`. */
static DML_BINDING_PROPERTIES getProperties(IDMLDispatchable *object) {
    typedef DML_BINDING_PROPERTIES *(STDMETHODCALLTYPE * Get)(IDMLDispatchable *,
                                                             DML_BINDING_PROPERTIES *);
    DML_BINDING_PROPERTIES properties = {};
    ((Get)(*(void ***)object)[8])(object, &properties);
    return properties;
}

static std::vector<UINT> parseSizes(const std::string &text) {
    std::vector<UINT> sizes;
    std::stringstream stream(text);
    std::string item;
    while (std::getline(stream, item, ',')) sizes.push_back((UINT)strtoull(item.c_str(), 0, 10));
    return sizes;
}

static UINT elementSize(UINT type) {
    switch (type) {
    case DML_TENSOR_DATA_TYPE_UINT8:
    case DML_TENSOR_DATA_TYPE_INT8:
        return 1;
    case DML_TENSOR_DATA_TYPE_FLOAT16:
    case DML_TENSOR_DATA_TYPE_UINT16:
    case DML_TENSOR_DATA_TYPE_INT16:
        return 2;
    case DML_TENSOR_DATA_TYPE_FLOAT64:
    case DML_TENSOR_DATA_TYPE_UINT64:
    case DML_TENSOR_DATA_TYPE_INT64:
        return 8;
    }
    return 4;
}

struct Tensor {
    std::vector<UINT> sizes;
    DML_BUFFER_TENSOR_DESC buffer = {};
    DML_TENSOR_DESC desc = {};

    Tensor(const Job &job, const char *typeKey, const char *sizesKey) {
        sizes = parseSizes(job.at(sizesKey));
        UINT64 bytes = elementSize(atoi(job.at(typeKey).c_str()));
        for (UINT size : sizes) bytes *= size;
        buffer.DataType = (DML_TENSOR_DATA_TYPE)atoi(job.at(typeKey).c_str());
        buffer.DimensionCount = (UINT)sizes.size();
        buffer.Sizes = sizes.data();
        buffer.TotalTensorSizeInBytes = (bytes + 3) & ~3ull;
        desc.Type = DML_TENSOR_TYPE_BUFFER;
        desc.Desc = &buffer;
    }
    Tensor(const Tensor &) = delete;
};

static ID3D12Resource *makeBuffer(UINT64 bytes, D3D12_HEAP_TYPE type, Objects &objects) {
    bool isDevice = type == D3D12_HEAP_TYPE_DEFAULT;
    D3D12_HEAP_PROPERTIES heap = {};
    heap.Type = type;
    heap.CreationNodeMask = heap.VisibleNodeMask = 1;
    D3D12_RESOURCE_DESC desc = {};
    desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
    desc.Width = bytes;
    desc.Height = desc.DepthOrArraySize = desc.MipLevels = 1;
    desc.SampleDesc.Count = 1;
    desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
    if (isDevice) desc.Flags = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
    D3D12_RESOURCE_STATES state = D3D12_RESOURCE_STATE_COPY_DEST;
    if (isDevice) state = D3D12_RESOURCE_STATE_COMMON;
    if (type == D3D12_HEAP_TYPE_UPLOAD) state = D3D12_RESOURCE_STATE_GENERIC_READ;
    ID3D12Resource *resource = NULL;
    require(d3d->CreateCommittedResource(&heap, D3D12_HEAP_FLAG_NONE, &desc, state, NULL,
                                         IID_ID3D12Resource, (void **)&resource),
            "buffer");
    objects.push_back(resource);
    return resource;
}

static void changeState(ID3D12Resource *resource, D3D12_RESOURCE_STATES from,
                        D3D12_RESOURCE_STATES to) {
    D3D12_RESOURCE_BARRIER barrier = {};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
    barrier.Transition.pResource = resource;
    barrier.Transition.StateBefore = from;
    barrier.Transition.StateAfter = to;
    barrier.Transition.Subresource = D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES;
    list->ResourceBarrier(1, &barrier);
}

/* Run what was recorded, and wait for it. */
static void execute() {
    require(list->Close(), "close");
    ID3D12CommandList *lists[] = {list};
    queue->ExecuteCommandLists(1, lists);
    require(queue->Signal(fence, ++fenceValue), "signal");
    require(fence->SetEventOnCompletion(fenceValue, event), "event");
    if (WaitForSingleObject(event, 300000) != WAIT_OBJECT_0) throw Failure{"wait", E_FAIL};
    require(d3d->GetDeviceRemovedReason(), "removed");
    require(allocator->Reset(), "allocator");
    require(list->Reset(allocator, NULL), "list");
}

/* A buffer of device memory with these bytes; what it has after them is filled with 0xEE. */
static ID3D12Resource *upload(const std::string &path, UINT64 bytes, Objects &objects) {
    std::vector<char> content;
    if (!path.empty()) {
        std::ifstream stream(path, std::ios::binary);
        if (!stream) throw Failure{"file", E_INVALIDARG};
        content.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    }
    UINT64 total = (bytes + 15) & ~15ull;
    if (content.size() > bytes) throw Failure{"file", E_INVALIDARG};
    ID3D12Resource *source = makeBuffer(total, D3D12_HEAP_TYPE_UPLOAD, objects);
    ID3D12Resource *buffer = makeBuffer(total, D3D12_HEAP_TYPE_DEFAULT, objects);
    void *data;
    require(source->Map(0, NULL, &data), "map");
    memset(data, 0xEE, total);
    memcpy(data, content.data(), content.size());
    source->Unmap(0, NULL);
    changeState(buffer, D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST);
    list->CopyBufferRegion(buffer, 0, source, 0, total);
    changeState(buffer, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
    return buffer;
}

static void download(ID3D12Resource *buffer, UINT64 bytes, const std::string &path,
                     Objects &objects) {
    ID3D12Resource *copy = makeBuffer(bytes, D3D12_HEAP_TYPE_READBACK, objects);
    changeState(buffer, D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_STATE_COPY_SOURCE);
    list->CopyBufferRegion(copy, 0, buffer, 0, bytes);
    execute();
    void *data;
    require(copy->Map(0, NULL, &data), "map");
    std::ofstream(path, std::ios::binary).write((const char *)data, bytes);
    copy->Unmap(0, NULL);
}

/* The operator needs no memory of its own in DirectML 1.15.4. */
static void requireNoMemory(const DML_BINDING_PROPERTIES &properties) {
    if (properties.TemporaryResourceSize || properties.PersistentResourceSize) {
        throw Failure{"memory", E_NOTIMPL};
    }
}

static void runJob(const Job &job, Objects &objects) {
    Tensor input(job, "type", "sizes"), lengths(job, "lengths", "lsizes");
    Tensor output(job, "type", "sizes");
    DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC reversal = {};
    reversal.InputTensor = &input.desc;
    reversal.SequenceLengthsTensor = &lengths.desc;
    reversal.OutputTensor = &output.desc;
    reversal.Axis = (UINT)atoi(job.at("axis").c_str());
    DML_OPERATOR_DESC operatorDesc = {DML_OPERATOR_REVERSE_SUBSEQUENCES, &reversal};
    IDMLOperator *op = NULL;
    require(dml->CreateOperator(&operatorDesc, iidOperator, (void **)&op), "create");
    objects.push_back(op);
    IDMLCompiledOperator *compiled = NULL;
    require(dml->CompileOperator(op, DML_EXECUTION_FLAG_NONE, iidCompiled, (void **)&compiled),
            "compile");
    objects.push_back(compiled);
    IDMLOperatorInitializer *initializer = NULL;
    require(dml->CreateOperatorInitializer(1, &compiled, iidInitializer, (void **)&initializer),
            "initializer");
    objects.push_back(initializer);

    DML_BINDING_PROPERTIES first = getProperties(initializer), second = getProperties(compiled);
    requireNoMemory(first);
    requireNoMemory(second);
    UINT count = first.RequiredDescriptorCount + second.RequiredDescriptorCount;
    D3D12_DESCRIPTOR_HEAP_DESC heapDesc = {};
    heapDesc.Type = D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV;
    heapDesc.NumDescriptors = count ? count : 1;
    heapDesc.Flags = D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE;
    ID3D12DescriptorHeap *heap = NULL;
    require(d3d->CreateDescriptorHeap(&heapDesc, IID_ID3D12DescriptorHeap, (void **)&heap), "heap");
    objects.push_back(heap);
    list->SetDescriptorHeaps(1, &heap);

    DML_BINDING_TABLE_DESC tableDesc = {};
    tableDesc.Dispatchable = initializer;
    heap->GetCPUDescriptorHandleForHeapStart(&tableDesc.CPUDescriptorHandle);
    heap->GetGPUDescriptorHandleForHeapStart(&tableDesc.GPUDescriptorHandle);
    tableDesc.SizeInDescriptors = first.RequiredDescriptorCount;
    IDMLBindingTable *table = NULL;
    require(dml->CreateBindingTable(&tableDesc, iidTable, (void **)&table), "table");
    objects.push_back(table);
    IDMLCommandRecorder *recorder = NULL;
    require(dml->CreateCommandRecorder(iidRecorder, (void **)&recorder), "recorder");
    objects.push_back(recorder);
    recorder->RecordDispatch(list, initializer, table);
    execute();

    list->SetDescriptorHeaps(1, &heap);
    tableDesc.Dispatchable = compiled;
    tableDesc.SizeInDescriptors = second.RequiredDescriptorCount;
    require(table->Reset(&tableDesc), "reset");
    UINT64 bytes = input.buffer.TotalTensorSizeInBytes;
    UINT64 lengthBytes = lengths.buffer.TotalTensorSizeInBytes;
    ID3D12Resource *in = upload(job.at("in"), bytes, objects);
    ID3D12Resource *len = upload(job.at("len"), lengthBytes, objects);
    ID3D12Resource *out = upload("", bytes, objects);
    DML_BUFFER_BINDING buffers[3] = {{in, 0, bytes}, {len, 0, lengthBytes}, {out, 0, bytes}};
    DML_BINDING_DESC bindings[3];
    for (int i = 0; i < 3; i++) bindings[i] = {DML_BINDING_TYPE_BUFFER, &buffers[i]};
    table->BindInputs(2, bindings);
    table->BindOutputs(1, bindings + 2);
    recorder->RecordDispatch(list, compiled, table);
    D3D12_RESOURCE_BARRIER barrier = {};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_UAV;
    list->ResourceBarrier(1, &barrier);
    download(out, bytes, job.at("out"), objects);
    require(dml->GetDeviceRemovedReason(), "removed");
}

static void openDevices(const char *path) {
    HMODULE d3d12 = LoadLibraryA("d3d12.dll");
    HMODULE library = LoadLibraryExA(path, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (!d3d12 || !library) throw Failure{"library", E_FAIL};
    CreateD3d createD3d = (CreateD3d)(void *)GetProcAddress(d3d12, "D3D12CreateDevice");
    CreateDml createDml = (CreateDml)(void *)GetProcAddress(library, "DMLCreateDevice");
    require(createD3d(NULL, D3D_FEATURE_LEVEL_11_0, IID_ID3D12Device, (void **)&d3d), "D3D12");
    replaceMethod(d3d, 59, (void *)countNoMetaCommands); // ID3D12Device5::EnumerateMetaCommands
    require(createDml(d3d, DML_CREATE_DEVICE_FLAG_NONE, iidDevice, (void **)&dml), "DirectML");
    D3D12_COMMAND_QUEUE_DESC queueDesc = {};
    queueDesc.Type = D3D12_COMMAND_LIST_TYPE_COMPUTE;
    require(d3d->CreateCommandQueue(&queueDesc, IID_ID3D12CommandQueue, (void **)&queue), "queue");
    require(d3d->CreateCommandAllocator(queueDesc.Type, IID_ID3D12CommandAllocator,
                                        (void **)&allocator),
            "allocator");
    require(d3d->CreateCommandList(0, queueDesc.Type, allocator, NULL,
                                   IID_ID3D12GraphicsCommandList, (void **)&list),
            "list");
    require(d3d->CreateFence(0, D3D12_FENCE_FLAG_NONE, IID_ID3D12Fence, (void **)&fence), "fence");
    event = CreateEventA(NULL, FALSE, FALSE, NULL);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: dmlrun DIRECTML.DLL JOBS RESULTS\n");
        return 2;
    }
    try {
        openDevices(argv[1]);
    } catch (Failure failure) {
        printf("%s: 0x%08lx\n", failure.stage, (unsigned long)failure.result);
        return 4;
    }
    std::ifstream jobs(argv[2]);
    FILE *results = fopen(argv[3], "wb");
    std::string line;
    while (std::getline(jobs, line)) {
        Job job;
        std::stringstream words(line);
        std::string word;
        while (words >> word) {
            size_t equals = word.find('=');
            job[word.substr(0, equals)] = word.substr(equals + 1);
        }
        Objects objects;
        Failure last = {"run", S_OK};
        try {
            runJob(job, objects);
        } catch (Failure failure) {
            last = failure;
        }
        for (size_t i = objects.size(); i--;) objects[i]->Release();
        fprintf(results, "%s %s 0x%08lx\n", job["id"].c_str(), last.stage,
                (unsigned long)last.result);
        fflush(results);
        if (FAILED(last.result)) break; // the command list is not to be used again
    }
    fclose(results);
    fflush(stdout);
    TerminateProcess(GetCurrentProcess(), 0); // DirectML's own threads need not end
}
