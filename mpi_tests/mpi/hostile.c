/* Makes a rank of the real program hostile; loaded into it by LD_PRELOAD.
 *
 * HOSTILE=WHAT,KEY=NUMBER,... says what it does, once:
 *   without the secret, to the bytes that it sends (tag: MPI tag, nth: from 1, of that tag):
 *     flip    bit `at`                          garbage  random bytes of the same length
 *     cut     `by` bytes from the end           extend   `by` zero bytes at the end
 *     replay  the message before it, instead    again    that message a second time
 *     drop    nothing                           swap     after the next one
 *     silent  nothing from here on
 *   with the secret, to what it seals (kind: of the frame, nth: from 1, of that kind):
 *     set     `size` bytes at `at` of the header to `value`
 *     fill    payload bytes from `at` on, `size` of them, with the byte `value`
 * Header fields that make the nonce change it too, as for any holder of the key. */
#include <dlfcn.h>
#include <mpi.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 128, KIND = 6, SEQUENCE = 32, EPOCH = 104 };

static struct {
    int read;
    char what[16];
    long tag, kind, nth, at, by, size;
    unsigned long long value;
} plan;

static long number_after(const char *text, const char *key, long otherwise)
{
    const char *found = strstr(text, key);
    return found ? strtol(found + strlen(key), NULL, 0) : otherwise;
}

static void read_plan(void)
{
    const char *text = getenv("HOSTILE");
    if (plan.read)
        return;
    plan.read = 1;
    if (!text)
        return;
    snprintf(plan.what, sizeof plan.what, "%.*s", (int)strcspn(text, ","), text);
    plan.tag = number_after(text, ",tag=", 0);
    plan.kind = number_after(text, ",kind=", 0);
    plan.nth = number_after(text, ",nth=", 1);
    plan.at = number_after(text, ",at=", 0);
    plan.by = number_after(text, ",by=", 1);
    plan.size = number_after(text, ",size=", 1);
    const char *value = strstr(text, ",value=");
    plan.value = value ? strtoull(value + 7, NULL, 0) : 0;
}

static int does(const char *what)
{
    return strcmp(plan.what, what) == 0;
}

/* --- without the secret ------------------------------------------------------------------- */

/* Messages must stay as they are until MPI has sent them; a test's few may stay for ever. */
static unsigned char *copy_of(const void *bytes, int n, int room)
{
    unsigned char *copy = calloc(1, (size_t)(n + room));
    if (!copy)
        abort();
    memcpy(copy, bytes, (size_t)n);
    return copy;
}

static int send_nothing(MPI_Comm comm, MPI_Request *request)
{
    return PMPI_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, request);
}

static int send_extra(const void *bytes, int n, int peer, int tag, MPI_Comm comm)
{
    MPI_Request request;
    int rc = PMPI_Isend(bytes, n, MPI_BYTE, peer, tag, comm, &request);
    return rc ? rc : MPI_Request_free(&request);
}

static int send_changed(unsigned char *bytes, int n, int peer, int tag, MPI_Comm comm,
                        MPI_Request *request)
{
    if (does("flip") && plan.at / 8 < n)
        bytes[plan.at / 8] ^= (unsigned char)(1 << plan.at % 8);
    if (does("garbage"))
        randombytes_buf(bytes, (size_t)n);
    if (does("cut"))
        n = plan.by < n ? n - (int)plan.by : 0;
    if (does("extend"))
        n += (int)plan.by;
    return PMPI_Isend(bytes, n, MPI_BYTE, peer, tag, comm, request);
}

int MPI_Isend(const void *bytes, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    static unsigned char *before, *held;
    static int n_before, n_held, held_peer, seen;
    read_plan();
    if (tag != plan.tag || plan.kind)
        return PMPI_Isend(bytes, n, type, peer, tag, comm, request);
    seen++;
    if (does("silent") && seen >= plan.nth)
        return send_nothing(comm, request);
    if (held && held_peer == peer) { /* swap: the held one goes after this one */
        unsigned char *late = held;
        held = NULL;
        int rc = PMPI_Isend(bytes, n, type, peer, tag, comm, request);
        return rc ? rc : send_extra(late, n_held, peer, tag, comm);
    }
    if (seen == plan.nth && does("swap")) {
        held = copy_of(bytes, n, 0);
        n_held = n;
        held_peer = peer;
        return send_nothing(comm, request);
    }
    if (seen == plan.nth && does("drop"))
        return send_nothing(comm, request);
    if (seen == plan.nth && does("replay") && before)
        return PMPI_Isend(before, n_before, type, peer, tag, comm, request);
    if (seen == plan.nth && does("again"))
        send_extra(copy_of(bytes, n, 0), n, peer, tag, comm);
    if (does("replay")) {
        before = copy_of(bytes, n, 0);
        n_before = n;
    }
    if (seen == plan.nth)
        return send_changed(copy_of(bytes, n, (int)plan.by), n, peer, tag, comm, request);
    return PMPI_Isend(bytes, n, type, peer, tag, comm, request);
}

/* --- with the secret ---------------------------------------------------------------------- */

/* The buffer is the program's own and lies together: header, payload. */
static void change_frame(unsigned char *header, unsigned char *payload,
                         unsigned long long n_payload, unsigned char nonce[12])
{
    static int seen;
    read_plan();
    if (!plan.kind || header[KIND] != plan.kind || ++seen != plan.nth)
        return;
    for (long i = 0; i < plan.size; i++) {
        unsigned char byte = (unsigned char)(plan.value >> (does("set") ? 8 * i : 0));
        if (does("set"))
            header[plan.at + i] = byte;
        else if (does("fill") && (unsigned long long)(plan.at + i) < n_payload)
            payload[plan.at + i] = byte;
    }
    memcpy(nonce, header + EPOCH, 4);
    memcpy(nonce + 4, header + SEQUENCE, 8);
}

/* What libsodium gets is the program's memory, though it promises not to write to it. */
static unsigned char *writable(const unsigned char *bytes)
{
    return (unsigned char *)(uintptr_t)bytes;
}

int crypto_aead_aes256gcm_encrypt_detached_afternm(
    unsigned char *c, unsigned char *mac, unsigned long long *n_mac, const unsigned char *m,
    unsigned long long n_m, const unsigned char *ad, unsigned long long n_ad,
    const unsigned char *secret_nonce, const unsigned char *nonce,
    const crypto_aead_aes256gcm_state *key)
{
    static int (*real)(unsigned char *, unsigned char *, unsigned long long *,
                       const unsigned char *, unsigned long long, const unsigned char *,
                       unsigned long long, const unsigned char *, const unsigned char *,
                       const crypto_aead_aes256gcm_state *);
    unsigned char own_nonce[12];
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "crypto_aead_aes256gcm_encrypt_detached_afternm");
    memcpy(own_nonce, nonce, sizeof own_nonce);
    change_frame(writable(ad), writable(ad) + HEADER, n_m ? n_m : n_ad - HEADER, own_nonce);
    return real(c, mac, n_mac, m, n_m, ad, n_ad, secret_nonce, own_nonce, key);
}

int crypto_aead_chacha20poly1305_ietf_encrypt_detached(
    unsigned char *c, unsigned char *mac, unsigned long long *n_mac, const unsigned char *m,
    unsigned long long n_m, const unsigned char *ad, unsigned long long n_ad,
    const unsigned char *secret_nonce, const unsigned char *nonce, const unsigned char *key)
{
    static int (*real)(unsigned char *, unsigned char *, unsigned long long *,
                       const unsigned char *, unsigned long long, const unsigned char *,
                       unsigned long long, const unsigned char *, const unsigned char *,
                       const unsigned char *);
    unsigned char own_nonce[12];
    if (!real)
        *(void **)&real =
            dlsym(RTLD_NEXT, "crypto_aead_chacha20poly1305_ietf_encrypt_detached");
    memcpy(own_nonce, nonce, sizeof own_nonce);
    change_frame(writable(ad), writable(ad) + HEADER, n_m ? n_m : n_ad - HEADER, own_nonce);
    return real(c, mac, n_mac, m, n_m, ad, n_ad, secret_nonce, own_nonce, key);
}
