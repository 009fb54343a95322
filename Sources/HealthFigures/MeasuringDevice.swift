import HealthReadings

extension Reading {
    /// What measured the reading. Of what came out of another program's data it is the device that the data names: two
    /// devices' readings are never one series, whichever way they came.
    public var measuringDevice: DeviceDescription {
        guard let imported = record.imported, imported.source != nil || imported.device != nil else { return device }
        return DeviceDescription(
            address: device.address, model: device.model, serial: imported.device, name: imported.source,
            provider: device.provider)
    }
}
