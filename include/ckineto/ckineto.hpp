/** @file
 *  ckineto for C++17: the C interface with RAII objects. Header only. No exceptions are thrown, so it also compiles
 *  without exceptions and RTTI: objects that can fail have a status() and an error(), and test false on failure. While
 *  nothing records, nothing is allocated and inputs are not evaluated.
 *
 *      KINETO_OPERATOR(mm_site, "aten::mm");
 *      {
 *          kineto::function f(mm_site, kineto::tensor(KINETO_DTYPE_FLOAT, {64, 32}), b, 0.5);
 *          ...
 *      }                                                        // ends here, however it is left
 *
 *      kineto::session session;
 *      ...
 *      kineto::trace trace = session.stop();
 *      if (!trace)
 *          complain(session.error().message);
 *      trace.save("trace.json");
 *
 *  range, function, user_scope, callback and functions_disabled need libckineto-rt only.
 */
#ifndef CKINETO_CKINETO_HPP
#define CKINETO_CKINETO_HPP

#include <ckineto/diff.h>
#include <ckineto/function.h>
#include <ckineto/profiler.h>
#include <ckineto/session.h>
#include <ckineto/trace.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace kineto
{

/** The bytes of a name or text of a trace; valid as long as the trace. */
inline std::string_view view(kineto_string s) noexcept
{
    return s.size != 0 ? std::string_view(s.data, s.size) : std::string_view();
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/** Description of a tensor; sizes and strides are borrowed from a vector, an array or C memory. */
class tensor_view
{
  public:
    tensor_view(kineto_dtype dtype, const std::int64_t *sizes, std::size_t rank,
                const std::int64_t *strides = nullptr) noexcept
        : raw_{sizes,
               strides,
               static_cast<std::uint32_t>(rank),
               static_cast<std::uint8_t>(dtype),
               KINETO_DEVICE_CPU,
               -1,
               0,
               0,
               0}
    {
    }
    tensor_view(kineto_dtype dtype, const std::vector<std::int64_t> &sizes) noexcept
        : tensor_view(dtype, sizes.data(), sizes.size())
    {
    }
    /** As many strides as sizes; else they count as contiguous. */
    tensor_view(kineto_dtype dtype, const std::vector<std::int64_t> &sizes,
                const std::vector<std::int64_t> &strides) noexcept
        : tensor_view(dtype, sizes.data(), sizes.size(),
                      strides.size() == sizes.size() ? strides.data() : nullptr)
    {
    }
    template <std::size_t N>
    tensor_view(kineto_dtype dtype, const std::array<std::int64_t, N> &sizes) noexcept
        : tensor_view(dtype, sizes.data(), N)
    {
    }
    template <std::size_t N>
    tensor_view(kineto_dtype dtype, const std::array<std::int64_t, N> &sizes,
                const std::array<std::int64_t, N> &strides) noexcept
        : tensor_view(dtype, sizes.data(), N, strides.data())
    {
    }

    tensor_view &device(kineto_device_type type, int index = -1) noexcept
    {
        raw_.device_type = static_cast<std::uint8_t>(type);
        raw_.device_index = static_cast<std::int16_t>(index);
        return *this;
    }
    tensor_view &ids(std::uint64_t id, std::uint64_t storage_id,
                     std::int64_t storage_offset = 0) noexcept
    {
        raw_.id = id;
        raw_.storage_id = storage_id;
        raw_.storage_offset = storage_offset;
        return *this;
    }
    const kineto_tensor *get() const noexcept { return &raw_; }

  protected:
    kineto_tensor raw_;
};

/** A tensor that has its sizes in itself: tensor(KINETO_DTYPE_FLOAT, {2, 3}), with strides
 *  tensor(KINETO_DTYPE_FLOAT, {2, 3}, {1, 2}), a scalar tensor(KINETO_DTYPE_FLOAT). */
template <std::size_t N> class tensor : public tensor_view
{
  public:
    explicit tensor(kineto_dtype dtype) noexcept : tensor_view(dtype, nullptr, 0)
    {
        static_assert(N == 0, "only a scalar has no sizes");
    }
    tensor(kineto_dtype dtype, const std::int64_t (&sizes)[N == 0 ? 1 : N]) noexcept
        : tensor_view(dtype, nullptr, N)
    {
        copy(sizes, nullptr);
    }
    tensor(kineto_dtype dtype, const std::int64_t (&sizes)[N == 0 ? 1 : N],
           const std::int64_t (&strides)[N == 0 ? 1 : N]) noexcept
        : tensor_view(dtype, nullptr, N)
    {
        copy(sizes, strides);
    }
    tensor(const tensor &other) noexcept : tensor_view(other)
    {
        copy(other.raw_.sizes, other.raw_.strides);
    }
    tensor &operator=(const tensor &other) noexcept
    {
        if (this != &other) {
            tensor_view::operator=(other);
            copy(other.raw_.sizes, other.raw_.strides);
        }
        return *this;
    }
    ~tensor() = default;

  private:
    void copy(const std::int64_t *sizes, const std::int64_t *strides) noexcept
    {
        for (std::size_t i = 0; i < N; i++) {
            dims_[i] = sizes[i];
            dims_[N + i] = strides != nullptr ? strides[i] : 0;
        }
        raw_.sizes = dims_;
        raw_.strides = strides != nullptr ? dims_ + N : nullptr;
    }

    std::int64_t dims_[N == 0 ? 1 : 2 * N] = {};
};
tensor(kineto_dtype)->tensor<0>;
template <std::size_t N> tensor(kineto_dtype, const std::int64_t (&)[N]) -> tensor<N>;
template <std::size_t N>
tensor(kineto_dtype, const std::int64_t (&)[N], const std::int64_t (&)[N]) -> tensor<N>;

/** No value. */
struct none_t {
};
inline constexpr none_t none{};

/* An input of an operator, from C++ types. Pointers are borrowed. */
inline kineto_input input(const tensor_view &t) noexcept { return kineto_input_tensor(t.get()); }
inline kineto_input input(const kineto_tensor &t) noexcept { return kineto_input_tensor(&t); }
inline kineto_input input(const kineto_tensor *t) noexcept { return kineto_input_tensor(t); }
inline kineto_input input(const std::vector<kineto_tensor> &list) noexcept
{
    return kineto_input_tensors(list.data(), static_cast<std::uint32_t>(list.size()));
}
inline kineto_input input(const kineto_input &in) noexcept { return in; }
inline kineto_input input(none_t) noexcept { return kineto_input_of(KINETO_INPUT_NONE, 0); }
inline kineto_input input(std::nullptr_t) noexcept { return kineto_input_tensor(nullptr); }
inline kineto_input input(const char *text) noexcept { return kineto_input_string(text); }
inline kineto_input input(const std::string &text) noexcept
{
    return kineto_input_string(text.c_str());
}
inline kineto_input input(const std::vector<std::int64_t> &list) noexcept
{
    return kineto_input_ints(list.data(), static_cast<std::uint32_t>(list.size()));
}
inline kineto_input input(const std::vector<double> &list) noexcept
{
    kineto_input in =
        kineto_input_of(KINETO_INPUT_DOUBLES, static_cast<std::uint32_t>(list.size()));
    in.doubles = list.data();
    return in;
}
template <std::size_t N> kineto_input input(const std::array<std::int64_t, N> &list) noexcept
{
    return kineto_input_ints(list.data(), static_cast<std::uint32_t>(N));
}
template <std::size_t N> kineto_input input(const std::array<double, N> &list) noexcept
{
    kineto_input in = kineto_input_of(KINETO_INPUT_DOUBLES, static_cast<std::uint32_t>(N));
    in.doubles = list.data();
    return in;
}
template <std::size_t N> kineto_input input(const std::array<bool, N> &list) noexcept
{
    kineto_input in = kineto_input_of(KINETO_INPUT_BOOLS, static_cast<std::uint32_t>(N));
    in.bools = list.data();
    return in;
}
/** Numbers of any type; integers and enumerations as 64 bits. */
template <class T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, int> = 0>
kineto_input input(T value) noexcept
{
    if constexpr (std::is_same_v<T, bool>)
        return kineto_input_bool(value);
    else if constexpr (std::is_floating_point_v<T>)
        return kineto_input_double(static_cast<double>(value));
    else
        return kineto_input_int(static_cast<std::int64_t>(value));
}

/* ---- recording ------------------------------------------------------------------------------- */

/** A range, from here to the end of the object. */
class range
{
  public:
    explicit range(kineto_site &where) noexcept : range_(kineto_range_begin(&where)) {}
    range(kineto_site &where, const kineto_value *values) noexcept
        : range_(kineto_range_begin_args(&where, values))
    {
    }
    range(kineto_site &where, const kineto_props &props) noexcept
        : range_(kineto_range_begin_props(&where, &props))
    {
    }
    /** With a name of the moment, which is copied. */
    range(kineto_site &where, std::string_view name) noexcept
    {
        if (kineto_enabled(where.kind)) {
            const kineto_props props = {
                sizeof(kineto_props), name.data(), name.size(), 0, 0, nullptr};
            range_ = kineto_record_begin_props(&where, &props);
        }
    }
    range(range &&other) noexcept : range_(std::exchange(other.range_, 0)) {}
    range(const range &) = delete;
    range &operator=(const range &) = delete;
    range &operator=(range &&) = delete;
    ~range() { end(); }

    /** Now, rather than at the end of the block. */
    void end() noexcept { kineto_range_end(std::exchange(range_, 0)); }
    /** Is it recorded? */
    explicit operator bool() const noexcept { return range_ != 0; }

  private:
    kineto_range range_ = 0;
};

/** Properties of an operator besides its inputs; see kineto_function_info_init. */
inline kineto_function_info function_info() noexcept
{
    kineto_function_info info;
    kineto_function_info_init(&info);
    return info;
}

/** An operator, PyTorch's RecordFunction, from here to the end of the object. Its inputs may be all
 *  that input() accepts; they are converted only if the operator is recorded or passed to a callback. */
class function
{
  public:
    template <class... Inputs>
    explicit function(kineto_site &where, const Inputs &...inputs) noexcept
    {
        raw_.state = 0;
        if (kineto__kind_wanted(where.kind))
            start(where, inputs...);
    }
    function(kineto_site &where, const kineto_function_info &info) noexcept
    {
        raw_.state = 0;
        if (kineto__kind_wanted(where.kind))
            kineto_function_record_begin_info(&raw_, &where, &info);
    }
    function(kineto_site &where, const std::vector<kineto_input> &inputs) noexcept
    {
        raw_.state = 0;
        if (kineto__kind_wanted(where.kind))
            kineto_function_record_begin(&raw_, &where, inputs.data(), inputs.size());
    }
    function(kineto_site &where, std::initializer_list<kineto_input> inputs) noexcept
    {
        raw_.state = 0;
        if (kineto__kind_wanted(where.kind))
            kineto_function_record_begin(&raw_, &where, inputs.begin(), inputs.size());
    }
    /** By a name that is known at run time only; a site is quicker. */
    template <class... Inputs> explicit function(const char *name, const Inputs &...inputs) noexcept
    {
        named(name, KINETO_SCOPE_FUNCTION, inputs...);
    }
    template <class... Inputs>
    function(kineto_scope scope, const char *name, const Inputs &...inputs) noexcept
    {
        named(name, scope, inputs...);
    }
    function(const function &) = delete;
    function &operator=(const function &) = delete;
    ~function() { kineto_function_end(&raw_); }

    /** Now, rather than at the end of the block. */
    void end() noexcept { kineto_function_end(&raw_); }
    /** See kineto_function_set_outputs: they must stay until the end. */
    void set_outputs(const kineto_input *outputs, std::size_t count) noexcept
    {
        if (raw_.state != 0)
            kineto_function_set_outputs(&raw_, outputs, count);
    }
    template <std::size_t N> void set_outputs(const std::array<kineto_input, N> &outputs) noexcept
    {
        set_outputs(outputs.data(), N);
    }
    /** 0 if it is neither recorded nor passed to a callback. */
    std::uint64_t id() const noexcept { return kineto_function_id(&raw_); }
    explicit operator bool() const noexcept { return raw_.state != 0; }
    kineto_function *get() noexcept { return &raw_; }

  private:
    template <class... Inputs> void start(kineto_site &where, const Inputs &...inputs) noexcept
    {
        if constexpr (sizeof...(Inputs) == 0) {
            kineto_function_record_begin(&raw_, &where, nullptr, 0);
        } else {
            const kineto_input list[] = {kineto::input(inputs)...};
            kineto_function_record_begin(&raw_, &where, list, sizeof...(Inputs));
        }
    }
    template <class... Inputs>
    void named(const char *name, kineto_scope scope, const Inputs &...inputs) noexcept
    {
        raw_.state = 0;
        if (!kineto__kind_wanted(KINETO_SCOPE_KIND(scope)))
            return;
        kineto_site *site = kineto_function_site(name, nullptr, scope);
        if (site != nullptr)
            start(*site, inputs...);
    }

    kineto_function raw_;
};

/** An annotation of the user's: PyTorch's record_function. */
class user_scope : public function
{
  public:
    template <class... Inputs>
    explicit user_scope(const char *name, const Inputs &...inputs) noexcept
        : function(KINETO_SCOPE_USER_SCOPE, name, inputs...)
    {
    }
};

/** No operators of this thread are looked at while it lives. */
class functions_disabled
{
  public:
    functions_disabled() noexcept : was_(kineto_function_enable(false)) {}
    functions_disabled(const functions_disabled &) = delete;
    functions_disabled &operator=(const functions_disabled &) = delete;
    ~functions_disabled() { (void)kineto_function_enable(was_); }

  private:
    bool was_;
};

/** A callback around operators, of all threads or of this one; removed with the object, which is
 *  then to be destroyed on the same thread. */
class callback
{
  public:
    enum class of { all_threads, this_thread };
    explicit callback(const kineto_function_callback &c, of threads = of::all_threads) noexcept
        : status_(threads == of::all_threads ? kineto_function_add_global(&c, &handle_, &error_)
                                             : kineto_function_add_local(&c, &handle_, &error_))
    {
    }
    callback(const callback &) = delete;
    callback &operator=(const callback &) = delete;
    ~callback()
    {
        if (handle_ != 0)
            (void)kineto_function_remove(handle_);
    }
    explicit operator bool() const noexcept { return status_ == KINETO_OK; }
    kineto_status status() const noexcept { return status_; }
    const kineto_error &error() const noexcept { return error_; }
    kineto_callback handle() const noexcept { return handle_; }

  private:
    kineto_callback handle_ = 0;
    kineto_error error_ = {};
    kineto_status status_;
};
inline kineto_function_callback callback_options() noexcept
{
    kineto_function_callback c;
    kineto_function_callback_init(&c);
    return c;
}

/* ---- traces ---------------------------------------------------------------------------------- */

/** An owner of a trace; copies share it. */
class trace
{
  public:
    trace() noexcept = default;
    /** Takes over what the caller owns. */
    explicit trace(kineto_trace *owned) noexcept : raw_(owned) {}
    trace(const trace &other) noexcept
        : raw_(kineto_trace_retain(other.raw_))
    {
    }
    trace(trace &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    trace &operator=(trace other) noexcept
    {
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~trace() { kineto_trace_release(raw_); }

    /** Read a file; tests false if that failed. */
    static trace open(const char *path, kineto_error *error = nullptr) noexcept
    {
        kineto_trace *raw = nullptr;
        (void)kineto_trace_open(path, &raw, error);
        return trace(raw);
    }
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    const kineto_trace *get() const noexcept { return raw_; }
    std::uint64_t size() const noexcept { return raw_ != nullptr ? kineto_trace_count(raw_) : 0; }
    kineto_activity operator[](kineto_row row) const noexcept
    {
        kineto_activity a = {};
        if (raw_ != nullptr)
            kineto_trace_get(raw_, row, &a);
        return a;
    }
    kineto_status save(const char *path, kineto_error *error = nullptr) const noexcept
    {
        return kineto_trace_save(raw_, path, error);
    }

  private:
    kineto_trace *raw_ = nullptr;
};

/* ---- analyses and comparisons ---------------------------------------------------------------- */

/** An owner of tables of facts: of a trace, or of a comparison. */
class analysis
{
  public:
    explicit analysis(kineto_analysis *owned = nullptr) noexcept : raw_(owned) {}
    analysis(analysis &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    analysis &operator=(analysis &&other) noexcept
    {
        std::swap(raw_, other.raw_);
        return *this;
    }
    analysis(const analysis &) = delete;
    analysis &operator=(const analysis &) = delete;
    ~analysis() { kineto_analysis_destroy(raw_); }

    /** Analyse a trace; tests false if that failed. */
    static analysis run(const trace &of, const kineto_analysis_options *options = nullptr,
                        kineto_error *error = nullptr) noexcept
    {
        kineto_analysis *raw = nullptr;
        (void)kineto_analysis_run(of.get(), options, &raw, error);
        return analysis(raw);
    }
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    const kineto_analysis *get() const noexcept { return raw_; }
    /** Rows of a table by name; 0: it has none, or was not requested. */
    std::uint64_t size(const char *table) const noexcept
    {
        kineto_fact_table info = {};
        if (raw_ != nullptr)
            kineto_analysis_table(raw_, kineto_analysis_find_table(raw_, table), &info);
        return info.row_count;
    }
    /** A cell by the names of table and column; is_none if there is no such cell. */
    kineto_fact fact(const char *table, std::uint64_t row, std::string_view column) const noexcept
    {
        kineto_fact out = {};
        out.is_none = true;
        const std::uint32_t index = raw_ != nullptr ? kineto_analysis_find_table(raw_, table) : UINT32_MAX;
        kineto_fact_column c;
        for (std::uint32_t i = 0; raw_ != nullptr && kineto_analysis_column(raw_, index, i, &c); i++)
            if (view(c.name) == column && !kineto_analysis_fact(raw_, index, row, i, &out))
                out.is_none = true;
        return out;
    }
    /** Evaluate a gate of a comparison, such as "step>3%". A malformed gate is an error and is skipped. */
    kineto_diff_verdict gate(const char *text, bool without_noise = false, kineto_error *error = nullptr) const noexcept
    {
        kineto_diff_verdict verdict;
        kineto_diff_verdict_init(&verdict);
        if (kineto_diff_gate(raw_, text, without_noise, &verdict, error) != KINETO_OK)
            verdict.outcome = KINETO_DIFF_SKIPPED;
        return verdict;
    }

  private:
    kineto_analysis *raw_;
};

/** Compare two traces; tests false if that failed. */
inline analysis diff(const trace &before, const trace &after, const kineto_diff_options *options = nullptr,
                     kineto_error *error = nullptr) noexcept
{
    kineto_analysis *raw = nullptr;
    (void)kineto_diff_run(before.get(), after.get(), options, &raw, error);
    return analysis(raw);
}

/** Compare several runs of each side, 1 to 32; tests false if that failed. */
inline analysis diff_runs(const std::vector<trace> &before, const std::vector<trace> &after,
                          const kineto_diff_options *options = nullptr, kineto_error *error = nullptr) noexcept
{
    constexpr std::size_t room = 33; // one more than may be compared, so that too many are an error
    std::array<const kineto_trace *, room> sides[2] = {};
    const std::vector<trace> *const runs[2] = {&before, &after};
    std::size_t counts[2] = {};
    for (std::size_t side = 0; side < 2; side++)
        for (const trace &run : *runs[side])
            if (counts[side] < room)
                sides[side][counts[side]++] = run.get();
    kineto_analysis *raw = nullptr;
    (void)kineto_diff_runs(sides[0].data(), counts[0], sides[1].data(), counts[1], options, &raw, error);
    return analysis(raw);
}

/* ---- sessions, profilers --------------------------------------------------------------------- */

inline kineto_session_options session_options() noexcept
{
    kineto_session_options o;
    kineto_session_options_init(&o);
    return o;
}

/** Records from here until it is stopped, or discards at its end. */
class session
{
  public:
    session() noexcept : session(session_options()) {}
    explicit session(const kineto_session_options &options) noexcept
        : status_(kineto_session_create(&options, &raw_, &error_))
    {
        if (status_ == KINETO_OK)
            status_ = kineto_session_start(raw_, &error_);
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    ~session() { kineto_session_destroy(raw_); }

    /** Stop, and return the trace; it tests false on failure, or if the session is not recording. */
    kineto::trace stop() noexcept
    {
        kineto_trace *out = nullptr;
        if (raw_ != nullptr)
            status_ = kineto_session_stop(raw_, &out, &error_);
        return kineto::trace(out);
    }
    /** Again. */
    kineto_status start() noexcept
    {
        return raw_ != nullptr ? status_ = kineto_session_start(raw_, &error_) : status_;
    }
    /** A trace of the current buffer; recording continues. */
    kineto::trace snapshot() noexcept
    {
        kineto_trace *out = nullptr;
        if (raw_ != nullptr)
            status_ = kineto_session_snapshot(raw_, &out, &error_);
        return kineto::trace(out);
    }
    explicit operator bool() const noexcept { return status_ == KINETO_OK; }
    /** Of the last call. */
    kineto_status status() const noexcept { return status_; }
    const kineto_error &error() const noexcept { return error_; }
    kineto_session *get() noexcept { return raw_; }

  private:
    kineto_session *raw_ = nullptr;
    kineto_error error_ = {};
    kineto_status status_;
};

/** Result of a profiler. */
class profiler_result
{
  public:
    explicit profiler_result(kineto_profiler_result *owned = nullptr) noexcept : raw_(owned) {}
    profiler_result(profiler_result &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    profiler_result &operator=(profiler_result &&other) noexcept
    {
        std::swap(raw_, other.raw_);
        return *this;
    }
    profiler_result(const profiler_result &) = delete;
    profiler_result &operator=(const profiler_result &) = delete;
    ~profiler_result() { kineto_profiler_result_release(raw_); }
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    kineto_profiler_result *get() const noexcept { return raw_; }
    /** Its trace, which may outlive it. */
    kineto::trace trace() const noexcept
    {
        const kineto_trace *t = raw_ != nullptr ? kineto_profiler_result_trace(raw_) : nullptr;
        return kineto::trace(kineto_trace_retain(t));
    }
    kineto_status save(const char *path, kineto_error *error = nullptr) const noexcept
    {
        return kineto_profiler_result_save(raw_, path, error);
    }

  private:
    kineto_profiler_result *raw_;
};

inline kineto_profiler_config
profiler_config(kineto_profiler_state state = KINETO_STATE_KINETO) noexcept
{
    kineto_profiler_config config;
    kineto_profiler_config_init(&config, state);
    return config;
}

/** Profiles from here until it is stopped, or discards at its end. */
class profiler
{
  public:
    explicit profiler(const kineto_profiler_config &config,
                      std::uint32_t activities = KINETO_ACTIVITY_SET(CPU),
                      std::uint32_t scopes = 0) noexcept
        : status_(kineto_profiler_create(&config, activities, scopes, &raw_, &error_))
    {
        if (status_ == KINETO_OK)
            status_ = kineto_profiler_start(raw_, &error_);
    }
    profiler(const profiler &) = delete;
    profiler &operator=(const profiler &) = delete;
    ~profiler() { kineto_profiler_destroy(raw_); }

    profiler_result stop() noexcept
    {
        kineto_profiler_result *out = nullptr;
        if (raw_ != nullptr)
            status_ = kineto_profiler_stop(raw_, &out, &error_);
        return profiler_result(out);
    }
    explicit operator bool() const noexcept { return status_ == KINETO_OK; }
    kineto_status status() const noexcept { return status_; }
    const kineto_error &error() const noexcept { return error_; }
    kineto_profiler *get() noexcept { return raw_; }

  private:
    kineto_profiler *raw_ = nullptr;
    kineto_error error_ = {};
    kineto_status status_;
};

} // namespace kineto
#endif
