/* A program that says with NVIDIA's own header what emit_program says without it: a range and a
 * moment, by text, by attributes, or in a domain. Also compares what that header declares with our
 * words for it. Compiled by test_emission_peers.py, where the header is. */
#include <nvtx3/nvToolsExt.h>

#include "profiler/nvtx.h"

#include <stdio.h>
#include <string.h>

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours " is " #theirs)
#define SAME_PLACE(ours, our_member, theirs, their_member)                                         \
    SAME(offsetof(ours, our_member), offsetof(theirs, their_member));                              \
    SAME(sizeof(((ours *)0)->our_member), sizeof(((theirs *)0)->their_member))

SAME(KP_NVTX_VERSION, NVTX_VERSION);
SAME(KP_NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(KP_NVTX_TABLE_VERSION, NVTX_ETID_VERSIONINFO);
#define X(name, number, count)                                                                     \
    SAME(KP_NVTX_MODULE_##name, NVTX_CB_MODULE_##name);                                            \
    SAME(count, NVTX_CBID_##name##_SIZE);
KP_NVTX_MODULE_MAP(X)
#undef X
SAME(KP_NVTX_MODULES, NVTX_CB_MODULE_SIZE);
SAME(KP_NVTX_MARK_EX, NVTX_CBID_CORE_MarkEx);
SAME(KP_NVTX_MARK_A, NVTX_CBID_CORE_MarkA);
SAME(KP_NVTX_RANGE_PUSH_EX, NVTX_CBID_CORE_RangePushEx);
SAME(KP_NVTX_RANGE_PUSH_A, NVTX_CBID_CORE_RangePushA);
SAME(KP_NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
SAME(KP_NVTX_DOMAIN_MARK_EX, NVTX_CBID_CORE2_DomainMarkEx);
SAME(KP_NVTX_DOMAIN_RANGE_PUSH_EX, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(KP_NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(KP_NVTX_DOMAIN_CREATE_A, NVTX_CBID_CORE2_DomainCreateA);
SAME(KP_NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);

SAME(sizeof(kp_nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME_PLACE(kp_nvtx_callbacks, struct_size, NvtxExportTableCallbacks, struct_size);
SAME_PLACE(kp_nvtx_callbacks, module_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME(sizeof(kp_nvtx_versions), sizeof(NvtxExportTableVersionInfo));
SAME_PLACE(kp_nvtx_versions, struct_size, NvtxExportTableVersionInfo, struct_size);
SAME_PLACE(kp_nvtx_versions, version, NvtxExportTableVersionInfo, version);
SAME_PLACE(kp_nvtx_versions, set_injection_version, NvtxExportTableVersionInfo,
           SetInjectionNvtxVersion);
SAME(sizeof(kp_nvtx_attributes), sizeof(nvtxEventAttributes_t));
SAME(sizeof(kp_nvtx_attributes), NVTX_EVENT_ATTRIB_STRUCT_SIZE);
SAME_PLACE(kp_nvtx_attributes, version, nvtxEventAttributes_t, version);
SAME_PLACE(kp_nvtx_attributes, size, nvtxEventAttributes_t, size);
SAME_PLACE(kp_nvtx_attributes, category, nvtxEventAttributes_t, category);
SAME_PLACE(kp_nvtx_attributes, color_type, nvtxEventAttributes_t, colorType);
SAME_PLACE(kp_nvtx_attributes, color, nvtxEventAttributes_t, color);
SAME_PLACE(kp_nvtx_attributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME_PLACE(kp_nvtx_attributes, payload, nvtxEventAttributes_t, payload);
SAME_PLACE(kp_nvtx_attributes, message_type, nvtxEventAttributes_t, messageType);
SAME_PLACE(kp_nvtx_attributes, message, nvtxEventAttributes_t, message);

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    nvtxEventAttributes_t a = {0};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "after";
    if (strcmp(way, "domain") == 0) {
        nvtxDomainHandle_t domain = nvtxDomainCreateA("ckineto");
        (void)nvtxDomainRangePushEx(domain, &a);
        (void)nvtxDomainRangePop(domain);
        nvtxDomainMarkEx(domain, &a);
    } else if (strcmp(way, "attributes") == 0) {
        (void)nvtxRangePushEx(&a);
        (void)nvtxRangePop();
        nvtxMarkEx(&a);
    } else {
        (void)nvtxRangePushA("after");
        (void)nvtxRangePop();
        nvtxMarkA("after");
    }
    return 0;
}
