"""The Bluetooth lab: a real bluetoothd in a small virtual machine, and emulated meters around it."""
