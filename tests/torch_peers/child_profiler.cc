// A C++ profiler of a backend, against PyTorch's headers alone: a child of whatever profiler PyTorch has. It arrives by
// libkineto's registerProfilerFactory (child_register) or by PyTorch's registry for PrivateUse1 (child_register_backend,
// 2.12 and newer). Each session delivers one kernel and the name of its device and row.
#include <libkineto.h>
#include <output_base.h>
#if CHILD_HAS_REGISTRY
#define USE_KINETO
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#endif

#include <chrono>

namespace
{
using libkineto::ActivityType;

int64_t now_ns()
{
    using namespace std::chrono;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

class Session final : public libkineto::IActivityProfilerSession
{
 public:
    explicit Session(std::string name) : name_(std::move(name)) {}
    void start() override { start_ns_ = now_ns(); }
    void stop() override { status_ = libkineto::TraceStatus::PROCESSING; }
    std::vector<std::string> errors() override { return {}; }
    void processTrace(libkineto::ActivityLogger &logger) override
    {
        buffer_.gpuOpCount = 0;
        buffer_.emplace_activity(buffer_.span, ActivityType::CONCURRENT_KERNEL, name_);
        auto &kernel = *buffer_.activities.back();
        kernel.startTime = start_ns_ + 1000;
        kernel.endTime = start_ns_ + 2000;
        kernel.id = 4242;
        kernel.device = 9;
        kernel.resource = 5;
        kernel.addMetadata("pushed", pushed_);
        logger.handleGenericActivity(kernel);
    }
    void processTrace(libkineto::ActivityLogger &logger, libkineto::getLinkedActivityCallback, int64_t,
                      int64_t) override
    {
        processTrace(logger);
    }
    std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override
    {
        return std::unique_ptr<libkineto::DeviceInfo>(
            new libkineto::DeviceInfo{9, 90, "Child device", "child"});
    }
    std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
    std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return nullptr; }
    void pushCorrelationId(uint64_t) override { pushed_++; }

 private:
    std::string name_;
    int64_t start_ns_ = 0;
    int pushed_ = 0;
    libkineto::CpuTraceBuffer buffer_;
};

class Profiler : public libkineto::IActivityProfiler
{
 public:
    explicit Profiler(std::string kernel) : kernel_(std::move(kernel)) {}
    const std::string &name() const override { return name_; }
    const std::set<ActivityType> &availableActivities() const override { return types_; }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType> &,
                                                                   const libkineto::Config &) override
    {
        return std::make_unique<Session>(kernel_);
    }
    std::unique_ptr<libkineto::IActivityProfilerSession>
    configure(int64_t, int64_t, const std::set<ActivityType> &types, const libkineto::Config &config) override
    {
        return configure(types, config);
    }

 private:
    std::string name_ = "child", kernel_;
    std::set<ActivityType> types_ = {ActivityType::CONCURRENT_KERNEL};
};
} // namespace

extern "C" __attribute__((visibility("default"))) void child_register()
{
    libkineto::api().registerProfilerFactory([]() -> std::unique_ptr<libkineto::IActivityProfiler> {
        return std::make_unique<Profiler>("child_kernel");
    });
}

extern "C" __attribute__((visibility("default"))) int child_register_backend()
{
#if CHILD_HAS_REGISTRY
    auto factory = []() -> std::unique_ptr<libkineto::IActivityProfiler> {
        return std::make_unique<Profiler>("backend_child_kernel");
    };
    torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(factory);
    return 1;
#else
    return 0;
#endif
}
