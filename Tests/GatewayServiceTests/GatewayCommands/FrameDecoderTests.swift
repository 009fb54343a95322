import HealthDevices
import HealthReadings
import Testing

@testable import GatewayCommands

@Suite("How the gateway's store understands frames")
struct FrameDecoderTests {
    @Test("of a meter's model it says what the meters' own decoder says, so that its ranges judge stored readings too")
    func models() {
        let (decoder, meters) = (GatewayFrameDecoder(), ModelFrameDecoder())
        let models = Catalogue().models.map { Optional($0.id) } + [nil, "no_model"]
        #expect(models.contains { !meters.rules(model: $0).isEmpty })
        let record = Frame(
            format: FrameFormat(characteristic: 0x2A18), payload: [0x10, 5, 0, 0xEA, 7, 11, 20, 7, 30, 0],
            receivedAt: Instant(seconds: 0), ordinal: 0)
        for model in models {
            #expect(decoder.rules(model: model) == meters.rules(model: model))
            #expect(decoder.clockShowsBaseTime(model: model) == meters.clockShowsBaseTime(model: model))
            #expect(decoder.contextsDecide(model: model) == meters.contextsDecide(model: model))
            #expect(decoder.comesByTwoProtocols(model: model) == meters.comesByTwoProtocols(model: model))
            #expect(decoder.awaitsContext(record, model: model) == meters.awaitsContext(record, model: model))
            #expect(decoder.passingNumber(of: record, model: model) == meters.passingNumber(of: record, model: model))
            #expect(decoder.lastingOctets(of: record, model: model) == meters.lastingOctets(of: record, model: model))
        }
    }
}
