#pragma once
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
    amqp_connection_state_t state, const char *vhost, int heartbeat, const char *user, const char *password) {
    return amqp_login(state, vhost, 0, AMQP_DEFAULT_FRAME_SIZE, heartbeat, AMQP_SASL_METHOD_PLAIN, user, password);
}

static inline amqp_rpc_reply_t healthrelay_amqp_login_with_certificate(
    amqp_connection_state_t state, const char *vhost, int heartbeat, const char *identity) {
    return amqp_login(state, vhost, 0, AMQP_DEFAULT_FRAME_SIZE, heartbeat, AMQP_SASL_METHOD_EXTERNAL, identity);
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
