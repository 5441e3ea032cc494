/* A stand-in for libnvidia-ml.so.1.
 *
 * All state lies in the file that ROOST_FAKE_NVML_STATE names. The test maps the same file and
 * writes to it, so that a "driver" changes while the probe runs. roost_probe.testing.state mirrors
 * the structs below; struct_size in the header catches the two drifting apart.
 *
 * The NVML types are declared here as the binding lays them out: the vendor's header is not free
 * to ship. It covers the binding (layouts, versioned symbols, error codes), not a real driver's
 * latencies or permissions.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAGIC 0x524f4f53u
#define MAX_GPUS 32
#define MAX_LANES 36
#define MAX_FAULTS 32
#define MAX_XIDS 64
#define MAX_PROCESSES 300
#define CPU_WORDS 32
#define ANY_GPU (-1)

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMED_OUT = 10, GPU_IS_LOST = 15, VERSION_MISMATCH = 18,
    ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999,
};
enum { FAULT_NONE = 0, FAULT_RETURN = 1, FAULT_HANG = 2, FAULT_CRASH = 3 };
enum { FIELD_NVLINK_TX_KIB = 138, FIELD_NVLINK_RX_KIB = 139, FIELD_PCIE_TX = 197, FIELD_PCIE_RX = 198 };
enum { TYPE_U32 = 1, TYPE_U64 = 3 };
enum { GPM_PCIE_TX = 20, GPM_PCIE_RX = 21 };
enum { EVENT_XID = 0x8 };

/* A byte counter that grows by itself; readers add what has passed since since_ns. */
typedef struct { uint64_t base_bytes; uint64_t since_ns; double bytes_per_s; } counter_t;
typedef struct { uint32_t active; uint32_t remote_type; char remote_bus_id[32]; } lane_t;
/* used_bytes of all ones: the driver does not say. */
typedef struct { uint32_t pid; uint32_t is_mps_client; uint64_t used_bytes; } process_t;
typedef struct {
    char uuid[96]; char name[96]; char bus_id[32];
    uint32_t domain; uint32_t bus; uint32_t device; uint32_t minor_number;
    int32_t mig_mode; /* -1: the GPU knows no MIG */
    uint32_t lost;
    uint64_t memory_affinity; /* bit per NUMA node, 0: unknown */
    uint64_t cpu_affinity[CPU_WORDS];
    uint64_t memory_total_bytes; uint64_t memory_used_bytes; uint64_t memory_reserved_bytes;
    uint32_t sm_percent; uint32_t memory_percent; uint32_t power_mw; uint32_t temperature_c;
    uint32_t sm_clock_mhz; uint32_t lane_count;
    uint64_t throttle_reasons; uint64_t ecc_uncorrected_count;
    uint64_t counter_version; /* odd while the writer is at work on the counters */
    counter_t pcie_tx; counter_t pcie_rx; counter_t nvlink_tx; counter_t nvlink_rx;
    uint32_t level[MAX_GPUS];
    lane_t lanes[MAX_LANES];
    uint32_t process_count; uint32_t pad;
    process_t processes[MAX_PROCESSES];
} gpu_t;
/* "call" is an exported name, or "field/138" for one field id. */
typedef struct { char call[64]; int32_t gpu; uint32_t kind; uint32_t code; uint32_t pad; } fault_t;
typedef struct { uint32_t gpu; uint32_t code; } xid_t;
typedef struct {
    uint32_t magic; uint32_t struct_size; uint32_t gpu_count; uint32_t init_error;
    char driver_version[80];
    uint64_t calls;
    uint64_t xid_count; /* ever raised; the ring holds the last MAX_XIDS */
    xid_t xids[MAX_XIDS];
    uint32_t fault_count; uint32_t pad;
    fault_t faults[MAX_FAULTS];
    gpu_t gpus[MAX_GPUS];
} state_t;

/* NVML's own, in the binding's layout. */
typedef int ret_t;
typedef gpu_t *device_t;
typedef struct {
    char bus_id_legacy[16]; unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned version; unsigned sensor; int temperature; } temperature_t;
typedef struct {
    unsigned field_id, scope_id; long long timestamp_us, latency_us; unsigned value_type; ret_t ret;
    union { double d; unsigned long long u; } value;
} field_t;
typedef struct { uint64_t seen; uint32_t registered; } event_set_t;
typedef struct {
    device_t device; unsigned long long type, data; unsigned gpu_instance, compute_instance;
} event_t;
typedef struct { uint64_t at_ns, pcie_tx, pcie_rx; } gpm_sample_t;
typedef struct { unsigned version; unsigned is_supported; } gpm_support_t;
typedef struct {
    unsigned pid; unsigned long long used_bytes; unsigned gpu_instance, compute_instance;
} process_info_t;
typedef struct { unsigned id; ret_t ret; double value; const char *names[3]; } gpm_metric_t;
typedef struct {
    unsigned version, count; gpm_sample_t *first, *second; gpm_metric_t metrics[];
} gpm_metrics_t;

static state_t *state;
static int init_count;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static ret_t fault(const char *call, int gpu) {
    for (uint32_t i = 0; i < state->fault_count && i < MAX_FAULTS; i++) {
        const fault_t *f = &state->faults[i];
        if ((f->gpu != ANY_GPU && f->gpu != gpu) || strcmp(f->call, call) != 0) continue;
        if (f->kind == FAULT_HANG) for (;;) pause();
        if (f->kind == FAULT_CRASH) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
        if (f->kind == FAULT_RETURN) return (ret_t)f->code;
    }
    return OK;
}

static ret_t enter(const char *call) {
    if (init_count == 0) return UNINITIALIZED;
    state->calls++;
    return state->fault_count ? fault(call, ANY_GPU) : OK;
}

static ret_t enter_device(const char *call, device_t device) {
    if (init_count == 0) return UNINITIALIZED;
    long gpu = device - state->gpus;
    if (device == NULL || gpu < 0 || gpu >= (long)state->gpu_count) return INVALID_ARGUMENT;
    state->calls++;
    if (device->lost) return GPU_IS_LOST;
    return state->fault_count ? fault(call, (int)gpu) : OK;
}

#define ENTER() do { ret_t ret_ = enter(__func__); if (ret_ != OK) return ret_; } while (0)
#define ENTER_DEVICE(d) do { ret_t ret_ = enter_device(__func__, d); if (ret_ != OK) return ret_; } while (0)

static ret_t copy_text(char *to, unsigned size, const char *from) {
    if (strlen(from) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return OK;
}

static uint64_t read_counter(const gpu_t *gpu, const counter_t *counter) {
    uint64_t before, bytes;
    do {
        before = __atomic_load_n(&gpu->counter_version, __ATOMIC_ACQUIRE);
        uint64_t now = now_ns(), since = counter->since_ns;
        double grown = now > since ? (double)(now - since) * 1e-9 * counter->bytes_per_s : 0.0;
        bytes = counter->base_bytes + (uint64_t)grown;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while ((before & 1) || before != __atomic_load_n(&gpu->counter_version, __ATOMIC_RELAXED));
    return bytes;
}

static ret_t map_state(void) {
    const char *path = getenv("ROOST_FAKE_NVML_STATE");
    struct stat info;
    if (path == NULL) return DRIVER_NOT_LOADED;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return DRIVER_NOT_LOADED;
    if (fstat(fd, &info) != 0 || (size_t)info.st_size != sizeof(state_t)) {
        close(fd);
        return VERSION_MISMATCH;
    }
    void *mapped = mmap(NULL, sizeof(state_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) return UNKNOWN;
    state = mapped;
    return OK;
}

API ret_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (state == NULL) {
        ret_t mapped = map_state();
        if (mapped != OK) return mapped;
    }
    if (state->magic != MAGIC || state->struct_size != sizeof(state_t)) return VERSION_MISMATCH;
    if (state->init_error) return (ret_t)state->init_error;
    ret_t injected = fault(__func__, ANY_GPU);
    if (injected == OK) init_count++;
    return injected;
}

API ret_t nvmlShutdown(void) {
    if (init_count == 0) return UNINITIALIZED;
    init_count--;
    return OK;
}

API const char *nvmlErrorString(ret_t ret) {
    static char text[48];
    snprintf(text, sizeof text, "fake driver error %d", ret);
    return text;
}

API ret_t nvmlSystemGetDriverVersion(char *version, unsigned size) {
    ENTER();
    return copy_text(version, size, state->driver_version);
}

API ret_t nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER();
    *count = state->gpu_count;
    return OK;
}

API ret_t nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    ENTER();
    if (index >= state->gpu_count) return INVALID_ARGUMENT;
    *device = &state->gpus[index];
    return enter_device(__func__, *device);
}

API ret_t nvmlDeviceGetUUID(device_t d, char *uuid, unsigned size) {
    ENTER_DEVICE(d);
    return copy_text(uuid, size, d->uuid);
}

API ret_t nvmlDeviceGetName(device_t d, char *name, unsigned size) {
    ENTER_DEVICE(d);
    return copy_text(name, size, d->name);
}

API ret_t nvmlDeviceGetPciInfo_v3(device_t d, pci_t *pci) {
    ENTER_DEVICE(d);
    memset(pci, 0, sizeof *pci);
    pci->domain = d->domain;
    pci->bus = d->bus;
    pci->device = d->device;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", d->bus_id);
    return OK;
}

API ret_t nvmlDeviceGetMinorNumber(device_t d, unsigned *minor_number) {
    ENTER_DEVICE(d);
    *minor_number = d->minor_number;
    return OK;
}

API ret_t nvmlDeviceGetMigMode(device_t d, unsigned *current, unsigned *pending) {
    ENTER_DEVICE(d);
    if (d->mig_mode < 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned)d->mig_mode;
    return OK;
}

API ret_t nvmlDeviceGetCpuAffinity(device_t d, unsigned words, unsigned long *set) {
    ENTER_DEVICE(d);
    for (unsigned i = 0; i < words; i++) set[i] = i < CPU_WORDS ? d->cpu_affinity[i] : 0;
    return OK;
}

API ret_t nvmlDeviceGetMemoryAffinity(device_t d, unsigned words, unsigned long *set, unsigned scope) {
    ENTER_DEVICE(d);
    (void)scope;
    if (words == 0) return INVALID_ARGUMENT;
    if (d->memory_affinity == 0) return NOT_SUPPORTED;
    memset(set, 0, words * sizeof *set);
    set[0] = d->memory_affinity;
    return OK;
}

API ret_t nvmlDeviceGetTopologyCommonAncestor(device_t a, device_t b, unsigned *level) {
    ENTER_DEVICE(a);
    long other = b - state->gpus;
    if (b == NULL || other < 0 || other >= (long)state->gpu_count) return INVALID_ARGUMENT;
    if (b->lost) return GPU_IS_LOST;
    *level = a->level[other];
    return OK;
}

API ret_t nvmlDeviceGetNvLinkState(device_t d, unsigned lane, unsigned *active) {
    ENTER_DEVICE(d);
    if (lane >= d->lane_count) return d->lane_count ? INVALID_ARGUMENT : NOT_SUPPORTED;
    *active = d->lanes[lane].active;
    return OK;
}

API ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t d, unsigned lane, pci_t *pci) {
    ENTER_DEVICE(d);
    if (lane >= d->lane_count) return INVALID_ARGUMENT;
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", d->lanes[lane].remote_bus_id);
    sscanf(pci->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return OK;
}

API ret_t nvmlDeviceGetNvLinkRemoteDeviceType(device_t d, unsigned lane, unsigned *type) {
    ENTER_DEVICE(d);
    if (lane >= d->lane_count) return INVALID_ARGUMENT;
    *type = d->lanes[lane].remote_type;
    return OK;
}

API ret_t nvmlDeviceGetUtilizationRates(device_t d, utilization_t *utilization) {
    ENTER_DEVICE(d);
    utilization->gpu = d->sm_percent;
    utilization->memory = d->memory_percent;
    return OK;
}

/* Like the real one, the old call counts what the driver reserves as used; v2 does not. */
API ret_t nvmlDeviceGetMemoryInfo(device_t d, memory_t *memory) {
    ENTER_DEVICE(d);
    memory->total = d->memory_total_bytes;
    memory->used = d->memory_used_bytes + d->memory_reserved_bytes;
    memory->free = memory->total - memory->used;
    return OK;
}

API ret_t nvmlDeviceGetMemoryInfo_v2(device_t d, memory_v2_t *memory) {
    ENTER_DEVICE(d);
    if (memory->version != (sizeof *memory | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    memory->total = d->memory_total_bytes;
    memory->reserved = d->memory_reserved_bytes;
    memory->used = d->memory_used_bytes;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}

API ret_t nvmlDeviceGetPowerUsage(device_t d, unsigned *power_mw) {
    ENTER_DEVICE(d);
    *power_mw = d->power_mw;
    return OK;
}

API ret_t nvmlDeviceGetTemperature(device_t d, unsigned sensor, unsigned *temperature_c) {
    ENTER_DEVICE(d);
    if (sensor != 0) return INVALID_ARGUMENT;
    *temperature_c = d->temperature_c;
    return OK;
}

API ret_t nvmlDeviceGetTemperatureV(device_t d, temperature_t *temperature) {
    ENTER_DEVICE(d);
    if (temperature->version != (sizeof *temperature | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    temperature->temperature = (int)d->temperature_c;
    return OK;
}

API ret_t nvmlDeviceGetClockInfo(device_t d, unsigned clock, unsigned *mhz) {
    ENTER_DEVICE(d);
    if (clock != 0 && clock != 1) return NOT_SUPPORTED;
    *mhz = d->sm_clock_mhz;
    return OK;
}

API ret_t nvmlDeviceGetCurrentClocksEventReasons(device_t d, unsigned long long *reasons) {
    ENTER_DEVICE(d);
    *reasons = d->throttle_reasons;
    return OK;
}

/* The name of the call above before driver 535. */
API ret_t nvmlDeviceGetCurrentClocksThrottleReasons(device_t d, unsigned long long *reasons) {
    ENTER_DEVICE(d);
    *reasons = d->throttle_reasons;
    return OK;
}

API ret_t nvmlDeviceGetTotalEccErrors(device_t d, unsigned type, unsigned counter, unsigned long long *count) {
    ENTER_DEVICE(d);
    if (type > 1 || counter > 1) return INVALID_ARGUMENT;
    *count = type == 1 ? d->ecc_uncorrected_count : 0;
    return OK;
}

/* The real call watches the bus for 20 ms, and the probe's defaults depend on that cost. */
API ret_t nvmlDeviceGetPcieThroughput(device_t d, unsigned counter, unsigned *kb_per_s) {
    ENTER_DEVICE(d);
    if (counter > 1) return INVALID_ARGUMENT;
    usleep(20000);
    *kb_per_s = (unsigned)((counter == 0 ? d->pcie_tx : d->pcie_rx).bytes_per_s / 1000);
    return OK;
}

static ret_t read_field(const gpu_t *d, field_t *field) {
    char call[32];
    snprintf(call, sizeof call, "field/%u", field->field_id);
    if (state->fault_count) {
        ret_t injected = fault(call, (int)(d - state->gpus));
        if (injected != OK) return injected;
    }
    int tx = field->field_id == FIELD_NVLINK_TX_KIB || field->field_id == FIELD_PCIE_TX;
    field->value_type = TYPE_U64;
    switch (field->field_id) {
    case FIELD_NVLINK_TX_KIB:
    case FIELD_NVLINK_RX_KIB: {
        if (d->lane_count == 0) return NOT_SUPPORTED;
        uint64_t kib = read_counter(d, tx ? &d->nvlink_tx : &d->nvlink_rx) / 1024;
        if (field->scope_id == UINT32_MAX) field->value.u = kib;
        else if (field->scope_id < d->lane_count) field->value.u = kib / d->lane_count;
        else return INVALID_ARGUMENT;
        return OK;
    }
    case FIELD_PCIE_TX:
    case FIELD_PCIE_RX: /* 32 bits, as an H200 has them */
        field->value_type = TYPE_U32;
        field->value.u = (uint32_t)read_counter(d, tx ? &d->pcie_tx : &d->pcie_rx);
        return OK;
    default:
        return NOT_SUPPORTED;
    }
}

API ret_t nvmlDeviceGetFieldValues(device_t d, int count, field_t *fields) {
    ENTER_DEVICE(d);
    for (int i = 0; i < count; i++) {
        fields[i].timestamp_us = (long long)(now_ns() / 1000);
        fields[i].latency_us = 0;
        fields[i].ret = read_field(d, &fields[i]);
    }
    return OK;
}

/* Like the real ones: count holds the array's size, and then how many there are. */
static ret_t list_processes(device_t d, int of_mps, unsigned *count, process_info_t *infos) {
    unsigned size = *count, found = 0;
    for (unsigned i = 0; i < d->process_count; i++) {
        const process_t *process = &d->processes[i];
        if (of_mps && !process->is_mps_client) continue;
        if (found < size)
            infos[found] = (process_info_t){process->pid, process->used_bytes, ~0u, ~0u};
        found++;
    }
    *count = found;
    return found > size ? INSUFFICIENT_SIZE : OK;
}

API ret_t nvmlDeviceGetComputeRunningProcesses_v3(device_t d, unsigned *count, process_info_t *infos) {
    ENTER_DEVICE(d);
    return list_processes(d, 0, count, infos);
}

API ret_t nvmlDeviceGetMPSComputeRunningProcesses_v3(device_t d, unsigned *count, process_info_t *infos) {
    ENTER_DEVICE(d);
    return list_processes(d, 1, count, infos);
}

API ret_t nvmlGpmQueryDeviceSupport(device_t d, gpm_support_t *support) {
    ENTER_DEVICE(d);
    if (support->version != 1) return ARGUMENT_VERSION_MISMATCH;
    support->is_supported = 1;
    return OK;
}

API ret_t nvmlGpmSampleAlloc(gpm_sample_t **sample) {
    ENTER();
    *sample = calloc(1, sizeof **sample);
    return *sample == NULL ? UNKNOWN : OK;
}

API ret_t nvmlGpmSampleFree(gpm_sample_t *sample) {
    ENTER();
    free(sample);
    return OK;
}

API ret_t nvmlGpmSampleGet(device_t d, gpm_sample_t *sample) {
    ENTER_DEVICE(d);
    *sample = (gpm_sample_t){.at_ns = now_ns(), .pcie_tx = read_counter(d, &d->pcie_tx),
                             .pcie_rx = read_counter(d, &d->pcie_rx)};
    return OK;
}

API ret_t nvmlGpmMetricsGet(gpm_metrics_t *asked) {
    ENTER();
    if (asked->version != 1) return ARGUMENT_VERSION_MISMATCH;
    const gpm_sample_t *a = asked->first, *b = asked->second;
    if (a == NULL || b == NULL || b->at_ns <= a->at_ns) return INVALID_ARGUMENT;
    double elapsed_s = (double)(b->at_ns - a->at_ns) * 1e-9;
    for (unsigned i = 0; i < asked->count; i++) {
        gpm_metric_t *metric = &asked->metrics[i];
        int tx = metric->id == GPM_PCIE_TX;
        metric->ret = tx || metric->id == GPM_PCIE_RX ? OK : NOT_SUPPORTED;
        if (metric->ret != OK) continue;
        int64_t grown = (int64_t)(tx ? b->pcie_tx - a->pcie_tx : b->pcie_rx - a->pcie_rx);
        metric->value = (double)grown / elapsed_s / 1048576.0;
    }
    return OK;
}

API ret_t nvmlEventSetCreate(event_set_t **set) {
    ENTER();
    *set = calloc(1, sizeof **set);
    if (*set == NULL) return UNKNOWN;
    (*set)->seen = state->xid_count;
    return OK;
}

API ret_t nvmlDeviceRegisterEvents(device_t d, unsigned long long types, event_set_t *set) {
    ENTER_DEVICE(d);
    if (set == NULL || (types & ~(unsigned long long)EVENT_XID)) return NOT_SUPPORTED;
    set->registered |= 1u << (d - state->gpus);
    return OK;
}

static int next_event(event_set_t *set, event_t *event) {
    uint64_t raised = __atomic_load_n(&state->xid_count, __ATOMIC_ACQUIRE);
    if (raised - set->seen > MAX_XIDS) set->seen = raised - MAX_XIDS;
    while (set->seen < raised) {
        xid_t xid = state->xids[set->seen++ % MAX_XIDS];
        if (xid.gpu >= state->gpu_count || !(set->registered >> xid.gpu & 1)) continue;
        *event = (event_t){.device = &state->gpus[xid.gpu], .type = EVENT_XID, .data = xid.code,
                           .gpu_instance = ~0u, .compute_instance = ~0u};
        return 1;
    }
    return 0;
}

API ret_t nvmlEventSetWait_v2(event_set_t *set, event_t *event, unsigned timeout_ms) {
    ENTER();
    if (set == NULL) return INVALID_ARGUMENT;
    uint64_t deadline_ns = now_ns() + timeout_ms * 1000000ull;
    while (!next_event(set, event)) {
        if (now_ns() >= deadline_ns) return TIMED_OUT;
        usleep(1000);
    }
    return OK;
}

API ret_t nvmlEventSetFree(event_set_t *set) {
    ENTER();
    free(set);
    return OK;
}
