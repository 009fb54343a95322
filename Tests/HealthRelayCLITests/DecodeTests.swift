import Testing

/// `decode` follows the published documents to the letter.
@Suite struct DecodeTests {
    @Test("a glucose measurement is a reading without id, device, provider and time")
    func glucose() async throws {
        let result = try await Tool.run(["decode", "2a18", "13 05 00 ea 07 0b 14 0c 1e 00 3c 00 5f b0 11", "--json"])
        #expect(result.status == 0, "\(result.errors)")
        #expect(
            result.output == """
                {"id":null,"kind":"glucose","device":null,"provider":null,"sequence":5,"base_time":"2026-11-20T12:30:00",\
                "time_offset_minutes":60,"device_time":"2026-11-20T13:30:00","time":null,"time_basis":"unknown",\
                "time_uncertainty_minutes":null,"clock":null,"glucose":{"value":95,"unit":"mg/dL"},\
                "sample_type":"capillary_whole_blood","sample_location":"finger","context":null,"user":null,"status":[],\
                "omitted":{},"person":null,"excluded":null,"deliveries":[]}

                """)
    }

    @Test("a blood-pressure measurement keeps the digits the device sent")
    func bloodPressure() async throws {
        let result = try await Tool.run([
            "decode", "0x2A35", "1E f6 f4 16 f3 ff 07 ea 07 0b 15 07 00 00 b2 f2 01 04 00", "--json",
        ])
        #expect(result.status == 0, "\(result.errors)")
        let document = try Document(result.output)
        #expect(
            document["blood_pressure"]?.text
                == #"{"diastolic":{"unit":"mmHg","value":79.0},"mean":null,"systolic":{"unit":"mmHg","value":127.0}}"#)
        #expect(document["pulse"]?.text == #"{"unit":"bpm","value":69.0}"#)
        #expect(document["user"]?.text == "1")
        #expect(document["status"]?.text == #"["irregular_pulse"]"#)
        #expect(document["base_time"]?.plain == "2026-11-21T07:00:00")
        #expect(document["time_offset_minutes"]?.text == "null")
    }

    @Test("an implausible pulse is null, the pressures stay, and the text has no number for it")
    func implausiblePulse() async throws {
        // A BM85's frame without its model: the pulse's octets are read in the standard's order.
        let frame = "16 7f 00 4f 00 5f 00 ea 07 0b 15 07 1e 00 00 45 01 00 04"
        let plain = try await Tool.run(["decode", "2a35", frame, "--json"])
        #expect(plain.status == 0, "\(plain.errors)")
        let document = try Document(plain.output)
        #expect(document["pulse"]?.text == "null" && document["omitted"]?.text == #"{"pulse":"implausible"}"#)
        #expect(document["blood_pressure"]?["systolic"]?.text == #"{"unit":"mmHg","value":127}"#)
        #expect(document["excluded"]?.text == "null")
        let line = try await Tool.run(["decode", "2a35", frame]).output
        #expect(line.contains("127/79 mmHg") && !line.contains("000"), "\(line)")
        let named = try await Tool.run(["decode", "2a35", frame, "--model", "beurer_bm85", "--json"])
        #expect(try Document(named.output)["pulse"]?.text == #"{"unit":"bpm","value":69}"#)
    }

    @Test("a number outside what the model measures is shown and excluded; without the model it stands")
    func outsideTheModelsRange() async throws {
        // 13 mg/dL: what a MyGlucose makes of a ketone of 0.4 mmol/L.
        let frame = "03 05 00 ea 07 0b 14 0c 1e 00 3c 00 0d b0 11"
        let named = try Document(
            try await Tool.run(["decode", "2a18", frame, "--model", "myglucose", "--json"]).output)
        #expect(named["excluded"]?.plain == "implausible")
        #expect(named["glucose"]?.text == #"{"unit":"mg/dL","value":13}"#)
        let plain = try Document(try await Tool.run(["decode", "2a18", frame, "--json"]).output)
        #expect(plain["excluded"]?.text == "null")
    }

    @Test("cuff pressure is never a reading of the patient")
    func cuffPressure() async throws {
        let result = try await Tool.run(["decode", "2a36", "00 78 00 ff 07 ff 07", "--json"])
        #expect(result.status == 0)
        let document = try Document(result.output)
        #expect(document["excluded"]?.plain == "intermediate")
        #expect(document["cuff_pressure"]?.text == #"{"unit":"mmHg","value":120}"#)
        #expect(document["blood_pressure"] == nil)
    }

    @Test("a model's quirks are heeded where the model is named, and only there")
    func quirks() async throws {
        let frame = "03 05 00 ea 07 0d 14 0c 1e 00 3c 00 5f b0 11"
        let named = try await Tool.run(["decode", "2a18", frame, "--model", "caresens", "--json"])
        #expect(named.status == 0, "\(named.errors)")
        #expect(try Document(named.output)["base_time"]?.plain == "2026-01-20T12:30:00")
        let plain = try await Tool.run(["decode", "2a18", frame, "--json"])
        #expect(try Document(plain.output)["base_time"]?.text == "null")
    }

    @Test("other vital signs are readings of their kind")
    func vitals() async throws {
        let heart = try Document(try await Tool.run(["decode", "2a37", "16 48 00 04 9a 03", "--json"]).output)
        #expect(heart["kind"]?.plain == "heart_rate" && heart["contact"]?.text == "true")
        #expect(
            heart["heart_rate"]?.text == #"{"unit":"bpm","value":72}"# && heart["rr_ms"]?.text == "[1000.00,900.39]")
        let warm = try await Tool.run(["decode", "2a1c", "04 6e 01 00 ff 03"])
        #expect(warm.status == 0 && warm.output.contains("temperature 36.6 °C"))
    }

    @Test("another characteristic is {characteristic, value}, and hex may be written as people write it")
    func other() async throws {
        for hex in ["64", "0x64", " 6 4 "] {
            let result = try await Tool.run(["decode", "00002a19-0000-1000-8000-00805f9b34fb", hex, "--json"])
            #expect(result.status == 0, "\(result.errors)")
            #expect(try Document(result.output)["characteristic"]?.plain == "2a19")
        }
    }

    @Test("a frame that is no record: 65, and the error says what was expected, where, and what was found")
    func short() async throws {
        let result = try await Tool.run(["decode", "2a18", "130500", "--json"])
        #expect(result.status == 65)
        let error = try Document(result.errors)["error"]
        #expect(error?["code"]?.plain == "malformed_frame")
        #expect(error?["message"]?.plain.contains("octet") == true)
        #expect(error?["message"]?.plain.contains("expected") == true)
    }

    @Test(
        "decoded but excluded is exit 0",
        arguments: ["13 05 00 ea 07 0b 14 0c 1e 00 3c 00 5f b0 1a", "13 05 00 ea 07 0b 14 0c 1e 00 3c 00 ff 07 11"])
    func excluded(_ hex: String) async throws {
        let result = try await Tool.run(["decode", "2a18", hex, "--json"])
        #expect(result.status == 0)
        #expect(try Document(result.output)["excluded"]?.text != "null")
    }
}
