// The floor: a plain libdbus program that waits for its meters, or lists every device near, by the match rules of the gateway.
//
//   listener wait ADDRESS...    the ObjectManager's signals, and the changes of the devices with these addresses
//   listener search             the changes of all devices, too
//
// It looks into each signal for the address and the RSSI, and keeps nothing. It prints "ready", and at SIGTERM what it counted.
#include <dbus/dbus.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define DEVICE "org.bluez.Device1"
static long count, ours;
static int addresses;
static char **wanted;
static volatile sig_atomic_t is_over;

static void end(int number) { (void)number, is_over = 1; }

// Looks at the properties of a device (a{sv}).
static void properties(DBusMessageIter *entries) {
    DBusMessageIter entry, variant;
    const char *name, *text;
    dbus_int16_t rssi = 0;
    for (; dbus_message_iter_get_arg_type(entries) == DBUS_TYPE_DICT_ENTRY; dbus_message_iter_next(entries)) {
        dbus_message_iter_recurse(entries, &entry);
        dbus_message_iter_get_basic(&entry, &name);
        dbus_message_iter_next(&entry);
        dbus_message_iter_recurse(&entry, &variant);
        if (strcmp(name, "RSSI") == 0 && dbus_message_iter_get_arg_type(&variant) == DBUS_TYPE_INT16)
            dbus_message_iter_get_basic(&variant, &rssi);
        if (strcmp(name, "Address") != 0 || dbus_message_iter_get_arg_type(&variant) != DBUS_TYPE_STRING) continue;
        dbus_message_iter_get_basic(&variant, &text);
        for (int index = 0; index < addresses; index++) ours += strcmp(wanted[index], text) == 0;
    }
}

static DBusHandlerResult filter(DBusConnection *connection, DBusMessage *message, void *unused) {
    (void)connection, (void)unused;
    DBusMessageIter arguments, interfaces, interface, entries;
    const char *text;
    if (dbus_message_is_signal(message, "org.freedesktop.DBus.Properties", "PropertiesChanged")) {
        if (!dbus_message_has_signature(message, "sa{sv}as")) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
        dbus_message_iter_init(message, &arguments);
        dbus_message_iter_next(&arguments);
        dbus_message_iter_recurse(&arguments, &entries);
        properties(&entries);
        count++;
    } else if (dbus_message_is_signal(message, "org.freedesktop.DBus.ObjectManager", "InterfacesAdded")) {
        if (!dbus_message_has_signature(message, "oa{sa{sv}}")) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
        dbus_message_iter_init(message, &arguments);
        dbus_message_iter_next(&arguments);
        dbus_message_iter_recurse(&arguments, &interfaces);
        for (; dbus_message_iter_get_arg_type(&interfaces) == DBUS_TYPE_DICT_ENTRY; dbus_message_iter_next(&interfaces)) {
            dbus_message_iter_recurse(&interfaces, &interface);
            dbus_message_iter_get_basic(&interface, &text);
            if (strcmp(text, DEVICE) != 0) continue;
            dbus_message_iter_next(&interface);
            dbus_message_iter_recurse(&interface, &entries);
            properties(&entries);
        }
        count++;
    } else if (dbus_message_is_signal(message, "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved")) {
        count++;
    }
    return DBUS_HANDLER_RESULT_HANDLED;
}

static void match(DBusConnection *connection, const char *rule) {
    DBusError error = DBUS_ERROR_INIT;
    dbus_bus_add_match(connection, rule, &error);
    if (dbus_error_is_set(&error)) fprintf(stderr, "%s: %s\n", rule, error.message);
}

int main(int number, char **given) {
    if (number < 2) return 64;
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    DBusConnection *connection = dbus_bus_get_private(DBUS_BUS_SYSTEM, NULL);
    if (!connection) return 69;
    dbus_connection_add_filter(connection, filter, NULL, NULL);
    match(connection, "type='signal',sender='org.bluez',interface='org.freedesktop.DBus.ObjectManager'");
    addresses = number - 2, wanted = given + 2;
    if (strcmp(given[1], "search") == 0) {
        match(connection, "type='signal',sender='org.bluez',interface='org.freedesktop.DBus.Properties',"
                          "member='PropertiesChanged',arg0='" DEVICE "'");
    } else {
        for (int index = 0; index < addresses; index++) {
            char path[64], rule[256];
            snprintf(path, sizeof path, "/org/bluez/hci0/dev_%s", wanted[index]);
            for (char *each = path; *each; each++)
                if (*each == ':') *each = '_';
            snprintf(rule, sizeof rule, "type='signal',sender='org.bluez',path='%s',interface='org.freedesktop.DBus.Properties',"
                     "member='PropertiesChanged',arg0='" DEVICE "'", path);
            match(connection, rule);
        }
    }
    puts("ready");
    fflush(stdout);
    while (!is_over && dbus_connection_read_write_dispatch(connection, 200)) {}
    printf("{\"count\": %ld, \"ours\": %ld}\n", count, ours);
    dbus_connection_close(connection);
    dbus_connection_unref(connection);
    return 0;
}
