// The floor: a plain libdbus reader of notifications, as one would write it by hand. It takes the octets of each Value
// in a filter and decodes the record there.
#include <dbus/dbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../../Decode/CDecode/decode.c"

#define CHARACTERISTIC "org.bluez.GattCharacteristic1"
#define SERVICE "/org/bluez/hci0/dev_C0_00_00_00_18_08/service0010"
static const char *measurement = SERVICE "/char0011", *control = SERVICE "/char0014";
static long count;
static int64_t sum;
static int is_over;

static void value(const char *path, DBusMessageIter *octets) {
    const uint8_t *start = NULL;
    int length = 0;
    dbus_message_iter_get_fixed_array(octets, &start, &length);
    if (strcmp(path, control) == 0) is_over = 1;
    if (strcmp(path, measurement) != 0) return;
    struct c_glucose record;
    if (c_decode_glucose(start, (size_t)length, &record) != 0) return;
    count++;
    sum += record.sequence + record.base_time + record.time_offset + record.concentration.mantissa;
}

static DBusHandlerResult filter(DBusConnection *connection, DBusMessage *message, void *unused) {
    (void)connection, (void)unused;
    if (!dbus_message_is_signal(message, "org.freedesktop.DBus.Properties", "PropertiesChanged"))
        return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    DBusMessageIter arguments, entries, entry, variant, octets;
    const char *text;
    if (!dbus_message_has_signature(message, "sa{sv}as")) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    dbus_message_iter_init(message, &arguments);
    dbus_message_iter_get_basic(&arguments, &text);
    if (strcmp(text, CHARACTERISTIC) != 0) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    dbus_message_iter_next(&arguments);
    dbus_message_iter_recurse(&arguments, &entries);
    for (; dbus_message_iter_get_arg_type(&entries) == DBUS_TYPE_DICT_ENTRY; dbus_message_iter_next(&entries)) {
        dbus_message_iter_recurse(&entries, &entry);
        dbus_message_iter_get_basic(&entry, &text);
        if (strcmp(text, "Value") != 0) continue;
        dbus_message_iter_next(&entry);
        dbus_message_iter_recurse(&entry, &variant);
        if (dbus_message_iter_get_arg_type(&variant) != DBUS_TYPE_ARRAY ||
            dbus_message_iter_get_element_type(&variant) != DBUS_TYPE_BYTE)
            continue;
        dbus_message_iter_recurse(&variant, &octets);
        value(dbus_message_get_path(message), &octets);
    }
    return DBUS_HANDLER_RESULT_HANDLED;
}

static void call(DBusConnection *connection, const char *path, const char *member, int is_write) {
    DBusMessage *message = dbus_message_new_method_call("org.bluez", path, CHARACTERISTIC, member);
    if (is_write) {
        const uint8_t request[] = {1, 1}, *start = request;
        DBusMessageIter arguments, inside;
        dbus_message_iter_init_append(message, &arguments);
        dbus_message_iter_open_container(&arguments, DBUS_TYPE_ARRAY, "y", &inside);
        dbus_message_iter_append_fixed_array(&inside, DBUS_TYPE_BYTE, &start, 2);
        dbus_message_iter_close_container(&arguments, &inside);
        dbus_message_iter_open_container(&arguments, DBUS_TYPE_ARRAY, "{sv}", &inside);
        dbus_message_iter_close_container(&arguments, &inside);
    }
    DBusMessage *answer = dbus_connection_send_with_reply_and_block(connection, message, 25000, NULL);
    if (!answer) exit(70);
    dbus_message_unref(answer);
    dbus_message_unref(message);
}

static double cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(void) {
    DBusConnection *connection = dbus_bus_get_private(DBUS_BUS_SYSTEM, NULL);
    if (!connection) return 69;
    dbus_connection_add_filter(connection, filter, NULL, NULL);
    dbus_bus_add_match(connection,
                       "type='signal',sender='org.bluez',path_namespace='/org/bluez/hci0/dev_C0_00_00_00_18_08',"
                       "interface='org.freedesktop.DBus.Properties',member='PropertiesChanged',arg0='" CHARACTERISTIC "'",
                       NULL);
    call(connection, measurement, "StartNotify", 0);
    call(connection, control, "StartNotify", 0);
    double before = cpu();
    call(connection, control, "WriteValue", 1);
    while (!is_over && dbus_connection_read_write_dispatch(connection, -1)) {}
    double used = cpu() - before;
    printf("{\"count\": %ld, \"sum\": %lld, \"microseconds\": %.0f}\n", count, (long long)sum, used);
    dbus_connection_close(connection);
    dbus_connection_unref(connection);
    return 0;
}
