import Testing
@testable import HealthReadings
