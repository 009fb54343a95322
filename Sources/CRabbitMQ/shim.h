#pragma once
#include <string.h>
// From version 0.12 the headers have a folder of their own.
#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif

// Swift can't call a function that takes a variable number of arguments.
static inline amqp_rpc_reply_t healthrelay_amqp_login(
    amqp_connection_state_t state, const char *vhost, int heartbeat, const amqp_table_t *properties, const char *user,
    const char *password) {
    return amqp_login_with_properties(
        state, vhost, 0, AMQP_DEFAULT_FRAME_SIZE, heartbeat, properties, AMQP_SASL_METHOD_PLAIN, user, password);
}

static inline amqp_rpc_reply_t healthrelay_amqp_login_with_certificate(
    amqp_connection_state_t state, const char *vhost, int heartbeat, const amqp_table_t *properties,
    const char *identity) {
    return amqp_login_with_properties(
        state, vhost, 0, AMQP_DEFAULT_FRAME_SIZE, heartbeat, properties, AMQP_SASL_METHOD_EXTERNAL, identity);
}

// Signs in by password, or by certificate if there is no password. A connection that hears of blocking is told when the
// broker stops to read from it, and when it goes on.
static inline amqp_rpc_reply_t healthrelay_amqp_sign_in(
    amqp_connection_state_t state, const char *vhost, int heartbeat, int hears_blocking, const char *user,
    const char *password) {
    amqp_table_entry_t capability, property;
    capability.key = amqp_cstring_bytes("connection.blocked");
    capability.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    capability.value.value.boolean = 1;
    property.key = amqp_cstring_bytes("capabilities");
    property.value.kind = AMQP_FIELD_KIND_TABLE;
    property.value.value.table.num_entries = 1;
    property.value.value.table.entries = &capability;
    amqp_table_t properties;
    properties.num_entries = hears_blocking ? 1 : 0;
    properties.entries = &property;
    if (password) return healthrelay_amqp_login(state, vhost, heartbeat, &properties, user, password);
    return healthrelay_amqp_login_with_certificate(state, vhost, heartbeat, &properties, user);
}

// Proves to the broker that this side lives, without reading anything.
static inline int healthrelay_amqp_beat(amqp_connection_state_t state) {
    amqp_frame_t frame;
    memset(&frame, 0, sizeof frame);
    frame.frame_type = AMQP_FRAME_HEARTBEAT;
    frame.channel = 0;
    return amqp_send_frame(state, &frame);
}

// What a frame says of blocking: 1 that the broker stops to read, 2 that it goes on, 0 something else.
static inline int healthrelay_amqp_blocking(const amqp_frame_t *frame) {
    if (frame->frame_type != AMQP_FRAME_METHOD) return 0;
    if (frame->payload.method.id == AMQP_CONNECTION_BLOCKED_METHOD) return 1;
    if (frame->payload.method.id == AMQP_CONNECTION_UNBLOCKED_METHOD) return 2;
    return 0;
}

// A durable quorum queue that refuses what it has no room for, so that a publisher isn't told that it was kept.
static inline amqp_rpc_reply_t healthrelay_amqp_declare_quorum_queue(
    amqp_connection_state_t state, amqp_channel_t channel, const char *name, int group_size) {
    amqp_table_entry_t entries[4];
    entries[0].key = amqp_cstring_bytes("x-queue-type");
    entries[0].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[0].value.value.bytes = amqp_cstring_bytes("quorum");
    entries[1].key = amqp_cstring_bytes("x-quorum-initial-group-size");
    entries[1].value.kind = AMQP_FIELD_KIND_I32;
    entries[1].value.value.i32 = group_size;
    entries[2].key = amqp_cstring_bytes("x-overflow");
    entries[2].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[2].value.value.bytes = amqp_cstring_bytes("reject-publish");
    // RabbitMQ 4 drops a message that was delivered 20 times, for example while the database is away.
    entries[3].key = amqp_cstring_bytes("x-delivery-limit");
    entries[3].value.kind = AMQP_FIELD_KIND_I32;
    entries[3].value.value.i32 = INT32_MAX;
    amqp_table_t arguments;
    arguments.num_entries = 4;
    arguments.entries = entries;
    amqp_queue_declare(state, channel, amqp_cstring_bytes(name), 0, 1, 0, 0, arguments);
    return amqp_get_rpc_reply(state);
}

// The code and the words of what the broker refused; 0 if it refused nothing.
static inline int healthrelay_amqp_refusal(amqp_rpc_reply_t reply, amqp_bytes_t *words) {
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return 0;
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        amqp_connection_close_t *close = (amqp_connection_close_t *)reply.reply.decoded;
        *words = close->reply_text;
        return close->reply_code;
    }
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        amqp_channel_close_t *close = (amqp_channel_close_t *)reply.reply.decoded;
        *words = close->reply_text;
        return close->reply_code;
    }
    return -1;
}
